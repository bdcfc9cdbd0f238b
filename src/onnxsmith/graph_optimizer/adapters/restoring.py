"""What is a model's own and outside optimisers drop: put back where that is possible, found missing where not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import onnx_ir as ir

from onnxsmith.graph_analysis.nesting import has_subgraph, subgraphs
from onnxsmith.graph_optimizer.interface import compare_interfaces
from onnxsmith.graph_optimizer.operators import is_declared_random, onnx_schema
from onnxsmith.model import Model


def put_back(model: Model, result: Model) -> None:
    """Gives a result the versions, metadata, doc strings, domains and called functions of the model it was made from.

    Args:
        model: The model.
        result: What a tool made of it; it is changed.
    """
    before, after = model.ir, result.ir
    for name in ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string"):
        setattr(after, name, getattr(before, name))
    after.metadata_props.clear()
    after.metadata_props.update(before.metadata_props)
    after.graph.name, after.graph.doc_string = before.graph.name, before.graph.doc_string
    after.graph.metadata_props.clear()
    after.graph.metadata_props.update(before.graph.metadata_props)
    after.graph.meta.update(before.graph.meta)  # what onnx-ir has no place for
    called = _called(result)
    missing = before.functions.keys() - after.functions.keys()
    if called & missing:
        for key in missing:
            after.functions[key] = before.functions[key].clone()
    for domain in after.opset_imports.keys() - before.opset_imports.keys() - {domain for domain, _, _ in called}:
        del after.opset_imports[domain]
    for domain, version in before.opset_imports.items():
        after.opset_imports.setdefault(domain, version)
    for old, new in ((before.graph.inputs, after.graph.inputs), (before.graph.outputs, after.graph.outputs)):
        known = {value.name: value for value in old}
        for value in new:
            if value.name in known:
                value.doc_string = known[value.name].doc_string
                value.metadata_props.clear()
                value.metadata_props.update(known[value.name].metadata_props)


def find_loss(model: Model, result: Model) -> str | None:
    """What a result lacks or has otherwise than the model, in words, or None.

    The declared shape of an output that is only better known is put back to what it was.
    """
    for domain, version in model.ir.opset_imports.items():
        if (got := result.ir.opset_imports.get(domain)) != version:
            return f"it changed the opset of {domain or 'ai.onnx'}: {version} before, {got} after"
    differences, _ = compare_interfaces(model, result)
    if differences:
        return f"it changed the interface: {differences[0]}"
    for old, new in zip(model.ir.graph.outputs, result.ir.graph.outputs, strict=True):
        new.shape, new.type = old.shape, old.type
    used, still_used = _used(model), _used(result)
    for value in model.ir.graph.inputs:
        if value.is_initializer() and value.name in used and value.name not in still_used:
            return f"it folded '{value.name}', which a caller can override"
    random, still_random = _random(model), _random(result)
    lost = next(iter(random - still_random), None)
    return f"it folded or merged the random operator {lost}" if lost is not None else None


def _called(model: Model) -> set[ir.OperatorIdentifier]:
    """The operators of all nodes, those in functions too."""
    nodes: list[Iterable[ir.Node]] = [model.nodes()]
    nodes += [graph for function in model.ir.functions.values() for graph in (function.graph, *function.subgraphs())]
    return {node.op_identifier() for some in nodes for node in some}


def _needed(graph: ir.Graph) -> list[ir.Node]:
    """The nodes that an output of the graph depends on, those in subgraphs too."""
    found: dict[ir.Node, None] = {}
    waiting: list[ir.Value | None] = list(graph.outputs)
    while waiting:
        value = waiting.pop()
        node = value.producer() if value is not None else None
        if node is not None and node not in found:
            found[node] = None
            waiting.extend(node.inputs)
            for subgraph in subgraphs(node):
                waiting.extend(subgraph.outputs)
    return list(found)


def _used(model: Model) -> set[str]:
    """The names of what the needed nodes and the outputs use."""
    values = [value for node in _needed(model.ir.graph) for value in node.inputs]
    return {value.name for value in (*values, *model.ir.graph.outputs) if value is not None and value.name}


def _random(model: Model) -> Counter[str]:
    """How many random values of each operator the outputs depend on; a call of a function counts for what is in it."""
    inside: dict[ir.OperatorIdentifier, Counter[str]] = {}

    def count(nodes: Iterable[ir.Node]) -> Counter[str]:
        counts: Counter[str] = Counter()
        for node in nodes:
            function = model.ir.functions.get(node.op_identifier())
            if function is not None:
                if node.op_identifier() not in inside:
                    inside[node.op_identifier()] = count(_needed(function.graph))
                counts += inside[node.op_identifier()]
            elif _is_random(model, node):
                counts[node.op_type] += 1
        return counts

    return count(_needed(model.ir.graph))


def _is_random(model: Model, node: ir.Node) -> bool:
    schema = onnx_schema(model, node)
    if schema is None or not is_declared_random(schema) or has_subgraph(node):
        return False
    if node.op_type != "Dropout":
        return True
    training = node.inputs[2] if len(node.inputs) > 2 else None
    known = ir.convenience.get_const_tensor(training) if training is not None else None
    return training is not None and (known is None or bool(known.numpy()))
