"""What an outside optimiser changed: the nodes that it made, and what is still there of the old ones and of weights."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence

import onnx_ir as ir

_WITH_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


class Changes:
    """Two models compared.

    A node is the same where its operator, the names of its inputs and outputs, and its attributes are; it gets back the
    name, the doc string and the metadata that it had. A weight that is the same becomes the very tensor that it was, so
    that it stays in its file.

    Args:
        before: A model.
        after: What became of it; it is changed as said.

    Attributes:
        made: The nodes that are new.
        count: How many nodes came or went, and how many initializers and functions changed.
    """

    def __init__(self, before: ir.Model, after: ir.Model) -> None:
        self.made: list[ir.Node] = []
        old: dict[tuple[object, ...], list[ir.Node]] = defaultdict(list)
        for graph in _graphs(before.graph):
            for node in graph:
                old[_key(node)].append(node)
        for graph in _graphs(after.graph):
            for node in graph:
                same = old.get(_key(node))
                if same:
                    _describe(node, same.pop())
                else:
                    self.made.append(node)
        gone = sum(map(len, old.values()))
        self.count = len(self.made) + gone + _changed_initializers(before, after) + _changed_functions(before, after)


def _graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    """A graph and all in it, in the order of the nodes."""
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        yield current
        for node in current:
            for attribute in node.attributes.values():
                if attribute.is_ref():
                    continue
                if attribute.type == ir.AttributeType.GRAPH:
                    waiting.append(attribute.as_graph())
                elif attribute.type == ir.AttributeType.GRAPHS:
                    waiting.extend(attribute.as_graphs())


def _key(node: ir.Node) -> tuple[object, ...]:
    return (
        "" if node.domain == "ai.onnx" else node.domain,
        node.op_type,
        node.overload,
        _names(node.inputs),
        _names(node.outputs),
        tuple(sorted((name, _contents(attribute)) for name, attribute in node.attributes.items())),
    )


def _names(values: Sequence[ir.Value | None]) -> tuple[str, ...]:
    names = ["" if value is None else value.name or "" for value in values]
    while names and not names[-1]:
        names.pop()
    return tuple(names)


def _contents(attribute: ir.Attr) -> bytes:
    """What tells an attribute's value from another; graphs are compared node by node."""
    if not attribute.is_ref():
        if attribute.type in _WITH_GRAPHS:
            return b""
        if attribute.type == ir.AttributeType.TENSOR:
            return _digest(attribute.as_tensor())
    message = ir.serde.serialize_attribute(attribute)
    message.ClearField("doc_string")
    return message.SerializeToString(deterministic=True)


def _digest(tensor: ir.TensorProtocol) -> bytes:
    """Of a tensor's contents, however they are stored."""
    head = f"{tensor.dtype.name}{list(tensor.shape)}".encode()
    return hashlib.sha256(head + _bytes(tensor)).digest()


def _bytes(tensor: ir.TensorProtocol) -> bytes:
    if tensor.dtype == ir.DataType.STRING:
        return repr(tensor.numpy().tolist()).encode()
    return tensor.tobytes()


def _equal(left: ir.TensorProtocol, right: ir.TensorProtocol) -> bool:
    if left.dtype != right.dtype or tuple(left.shape) != tuple(right.shape):
        return False
    return _bytes(left) == _bytes(right)


def _describe(node: ir.Node, old: ir.Node) -> None:
    node.name, node.doc_string = old.name, old.doc_string
    node.metadata_props.clear()
    node.metadata_props.update(old.metadata_props)


def _changed_initializers(before: ir.Model, after: ir.Model) -> int:
    old: dict[str, list[ir.Value]] = defaultdict(list)
    for graph in _graphs(before.graph):
        for name, value in graph.initializers.items():
            old[name].append(value)
    changed = 0
    for graph in _graphs(after.graph):
        for name, value in graph.initializers.items():
            tensor, candidates = value.const_value, old.get(name, [])
            for index, candidate in enumerate(candidates):
                was = candidate.const_value
                if was is not None and tensor is not None and _equal(was, tensor):
                    value.const_value = was
                    del candidates[index]
                    break
            else:
                changed += 1
    return changed + sum(map(len, old.values()))


def _changed_functions(before: ir.Model, after: ir.Model) -> int:
    keys = before.functions.keys() | after.functions.keys()
    return sum(_function_key(before, key) != _function_key(after, key) for key in keys)


def _function_key(model: ir.Model, key: ir.OperatorIdentifier) -> object:
    function = model.functions.get(key)
    if function is None:
        return None
    nodes = [_key(node) for graph in _graphs(function.graph) for node in graph]
    return nodes, _names(function.inputs), _names(function.outputs)
