"""A view, elementwise nodes, and the view back: as between two Gemms of a feed-forward block."""

from __future__ import annotations

import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.views import VIEWS

_ELEMENTWISE = frozenset(
    (
        *("Abs", "Add", "Cast", "Ceil", "Celu", "Clip", "Cos", "Div", "Elu", "Erf", "Exp", "Floor", "Gelu"),
        *("HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Max", "Min", "Mish", "Mul", "Neg", "Not", "Pow"),
        *("Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Sub"),
        *("Swish", "Tanh", "ThresholdedRelu"),
    )
)
"""Operators whose results have the shape of their one input that is no scalar."""

_MOST_NODES = 24

_BROADCASTS_BY_ITSELF = 7
"""The opset from which no attribute says how a scalar is broadcast."""


def undo_view(node: ir.Node, editor: Editor) -> bool:
    """Computes elementwise nodes on the shape before a view, where the view after them has that shape again."""
    end = node.inputs[0]
    first = editor.producer(end, *_ELEMENTWISE)
    if first is None or end is None or editor.opset < _BROADCASTS_BY_ITSELF:
        return False
    between: dict[ir.Node, None] = {}
    sources: set[ir.Value] = set()
    waiting = [first]
    while waiting:
        current = waiting.pop()
        if current in between:
            continue
        if len(between) == _MOST_NODES or current.graph is not node.graph:
            return False
        between[current] = None
        for value in current.inputs:
            producer = editor.producer(value, *_ELEMENTWISE)
            if producer is not None:
                waiting.append(producer)
            elif value is not None and not (editor.is_constant(value) and editor.static_shape(value) in ((), (1,))):
                sources.add(value)
    view = editor.producer(next(iter(sources)), *VIEWS) if len(sources) == 1 else None
    if view is None or view.graph is not node.graph or view.inputs[0] is None:
        return False
    (viewed,) = sources
    data = view.inputs[0]
    before = editor.shape(data)
    if not before or before != editor.shape(node.outputs[0]) or not editor.rank(viewed):
        return False
    outputs = [output for made in between for output in made.outputs]
    if any(output.is_graph_output() for output in outputs) or any(
        user is not node and user not in between for output in outputs for user, _ in output.uses()
    ):
        return editor.decline(node, "what is computed between it and the view before is used elsewhere too")
    for output in outputs:
        output.shape = None
    editor.facts.forget_values(outputs)
    for made in between:
        for index, value in enumerate(made.inputs):
            if value is viewed:
                editor.set_input(made, index, data)
    editor.replace(node.outputs[0], end)
    return True
