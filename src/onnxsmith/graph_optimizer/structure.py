"""Whether a graph still hangs together: one walk in Python, cheap enough to be done after each pass."""

from __future__ import annotations

import functools

import onnx
import onnx_ir as ir

from onnxsmith.graph_analysis.nesting import subgraphs
from onnxsmith.graph_optimizer.editor import label


def find_fault(model: ir.Model) -> str | None:
    """The first rule that a model breaks, in words, or None.

    Each value has a name of its own, and is made once and before it is used, in its own graph or an outer one; each
    standard operator has as many inputs and outputs as its schema allows, and no required input is left out.

    Args:
        model: The model; function bodies are not looked at.
    """
    return _Walk(model).fault(model.graph)


class _Walk:
    def __init__(self, model: ir.Model) -> None:
        self._functions = model.functions
        self._opset = model.opset_imports.get("", model.opset_imports.get("ai.onnx", 0))
        self._known: set[ir.Value] = set()
        self._names: set[str] = set()

    def fault(self, graph: ir.Graph) -> str | None:
        """The first fault of a graph and what is in it; recursion is over nesting only, which readers bound."""
        own: list[ir.Value] = list(graph.inputs)
        own += [value for value in graph.initializers.values() if not value.is_graph_input()]
        for value in own:
            if not self._claim(value):
                return f"the name '{value.name}' is taken twice"
        self._known.update(own)
        for node in graph:
            fault = self._node_fault(node)
            if fault is not None:
                return fault
            for value in node.outputs:
                if value.name and not self._claim(value):
                    return f"the name '{value.name}' is taken twice"
            self._known.update(node.outputs)
            own += node.outputs
        for value in graph.outputs:
            if value not in self._known:
                return f"output '{value.name}' is made by nothing"
        self._known.difference_update(own)
        return None

    def _node_fault(self, node: ir.Node) -> str | None:
        for value in node.inputs:
            if value is not None and value not in self._known:
                return f"node '{label(node)}' uses '{value.name}', which nothing before it makes"
        if node.domain in ("", "ai.onnx") and node.op_identifier() not in self._functions:
            signature = _signature(node.op_type, self._opset)
            if signature is not None:
                required, most, least_outputs, most_outputs = signature
                fits = len(node.inputs) <= most and least_outputs <= len(node.outputs) <= most_outputs
                if not fits or any(index >= len(node.inputs) or node.inputs[index] is None for index in required):
                    return f"node '{label(node)}': its inputs and outputs are not what {node.op_type} takes"
        for subgraph in subgraphs(node):
            fault = self.fault(subgraph)
            if fault is not None:
                return fault
        return None

    def _claim(self, value: ir.Value) -> bool:
        if not value.name or value.name in self._names:
            return False
        self._names.add(value.name)
        return True


@functools.cache
def _signature(op_type: str, opset: int) -> tuple[tuple[int, ...], int, int, int] | None:
    """The indices of required inputs, the most inputs, the least and the most outputs."""
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    required = tuple(index for index, given in enumerate(schema.inputs) if given.option == single)
    return required, schema.max_input, schema.min_output, schema.max_output
