"""If and Loop whose course is known beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor, Unknown
from onnxsmith.graph_optimizer.passes.opset_forms import emit_with_axes, given
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.splicing import splice


@dataclass(frozen=True)
class FoldControlFlow(RulePass):
    """Puts the branch of an If in its place where the condition is known, and a Loop's body that runs once or never."""

    name: ClassVar[str] = "fold-control-flow"
    operators: ClassVar[frozenset[str]] = frozenset({"If", "Loop"})

    def edit(self, editor: Editor) -> None:
        """Goes over the nodes again after each change: what comes out of a branch tells more than the If did."""
        while True:
            before = editor.changes
            editor.notes.clear()
            super().edit(editor)
            if editor.changes == before:
                return
            editor.facts.forget()

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Puts what will run in the node's place."""
        if all(value is None for value in node.inputs):
            return False  # it was in a branch that is gone
        if node.op_type == "If":
            return _fold_if(node, editor)
        return _fold_loop(node, editor)


def _fold_if(node: ir.Node, editor: Editor) -> bool:
    condition = _known(editor, node.inputs[0])
    if condition is None:
        return editor.decline(node, "its condition is not known before it runs")
    branch = node.attributes["then_branch" if condition else "else_branch"].as_graph()
    _replace_outputs(editor, node, splice(editor, node, branch))
    return True


def _fold_loop(node: ir.Node, editor: Editor) -> bool:
    body = node.attributes["body"].as_graph()
    trips = _trips(editor, node, body)
    if trips is None or trips > 1:
        reason = "how often it runs is not known" if trips is None else "it runs more than once"
        return editor.decline(node, reason)
    carried = list(node.inputs[2:])
    if any(value is None for value in carried) or len(carried) + 2 != len(body.inputs):
        raise Unknown("its inputs do not fit its body")
    if trips == 0:
        stacked = [_no_iterations(editor, value) for value in body.outputs[1 + len(carried) :]]
        _replace_outputs(editor, node, [*(value for value in carried if value is not None), *stacked])
        return True
    first = editor.constant(np.zeros(_shape_of_scalar(body.inputs[0]), np.int64), "iteration")
    go_on = editor.constant(np.ones(_shape_of_scalar(body.inputs[1]), np.bool_), "condition")
    results = splice(editor, node, body, [first, go_on, *carried])[1:]
    stacked = [emit_with_axes(editor, "Unsqueeze", value, [0]) for value in results[len(carried) :]]
    _replace_outputs(editor, node, [*results[: len(carried)], *stacked])
    return True


def _trips(editor: Editor, node: ir.Node, body: ir.Graph) -> int | None:
    """How many iterations there are; None where that is not known."""
    most, condition = given(node, 0), given(node, 1)
    count = None if most is None else _known(editor, most)
    goes_in = 1 if condition is None else _known(editor, condition)
    if goes_in == 0 or (count is not None and count <= 0):
        return 0
    if goes_in is None or (most is not None and count is None):
        return None
    if count == 1:
        return 1
    # a loop without a condition ignores its body's
    return 1 if condition is not None and _known(editor, body.outputs[0]) == 0 else count


def _known(editor: Editor, value: ir.Value | None) -> int | None:
    """The number in a value of one element."""
    if value is None:
        return None
    found = editor.facts.data(value)
    if isinstance(found, tuple):
        found = found[0] if len(found) == 1 else None
    return found if isinstance(found, int) else None


def _shape_of_scalar(declared: ir.Value) -> tuple[int, ...]:
    """The shape in which the runtime hands the iteration's number and the condition to a body."""
    return (1,) if declared.shape is not None and declared.shape.rank() == 1 else ()


def _no_iterations(editor: Editor, value: ir.Value) -> ir.Value:
    """What a loop that never runs stacks up; the runtime goes by what its body declares."""
    dtype, shape = editor.dtype(value) or value.dtype, editor.static_shape(value)
    if shape is None and value.shape is not None and value.shape.is_static():
        shape = tuple(value.shape.numpy())
    if dtype is None or shape is None or dtype == ir.DataType.STRING:
        raise Unknown("it never runs, and the shape of what it would have stacked up is not known")
    return editor.constant(np.zeros((0, *shape), dtype.numpy()), "empty")


def _replace_outputs(editor: Editor, node: ir.Node, values: list[ir.Value]) -> None:
    for old, new in zip(list(node.outputs), values, strict=True):
        editor.replace(old, new)
