"""Nodes that change nothing go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.noop_arithmetic import ARITHMETIC, ZERO_SIGNS, clips_to_nonnegative
from onnxsmith.graph_optimizer.passes.noop_layout import LAYOUT
from onnxsmith.graph_optimizer.passes.noop_states import STATES, leave_out_zero_states
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.zero_signs import ZeroSigns

_RULES = ARITHMETIC | LAYOUT


@dataclass(frozen=True)
class EliminateNoops(RulePass):
    """Removes nodes whose result is one of their inputs, with its shape, its dtype and every one of its values.

    Attributes:
        zero_signs: Whether the sign of a zero in an output counts: x + 0.0 then stays, for it turns -0.0 into 0.0.
            Where that sign would make more than the sign of a zero, as in 1 / x, it always counts.
    """

    zero_signs: bool = False

    name: ClassVar[str] = "eliminate-noops"
    operators: ClassVar[frozenset[str]] = frozenset(_RULES) | frozenset(STATES)

    def edit(self, editor: Editor) -> None:
        """Goes over the nodes until nothing more applies."""
        editor.kept[ZERO_SIGNS] = ZeroSigns(editor, at_outputs=self.zero_signs)
        super().edit(editor)

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Puts the input in the place of the result."""
        if node.op_type in STATES:
            return leave_out_zero_states(node, editor)
        if node.op_type == "Clip" and _skip_relu(node, editor):
            return True
        output = node.outputs[0]
        if node.op_type == "Identity" and output.is_graph_output() and not _can_be_output(node, node.inputs[0]):
            return False
        value = _RULES[node.op_type](node, editor)
        if value is None:
            return False
        dtype = editor.dtype(value)
        if node.op_type != "Identity" and (dtype is None or dtype != editor.dtype(output)):
            return False
        editor.replace(output, value)
        return True


def _can_be_output(node: ir.Node, value: ir.Value | None) -> bool:
    producer = value.producer() if value is not None else None
    return producer is not None and producer.graph is node.graph and value is not None and not value.is_graph_output()


def _skip_relu(clip: ir.Node, editor: Editor) -> bool:
    """Takes the Relu before a Clip that lets nothing below zero through."""
    relu = editor.producer(clip.inputs[0], "Relu")
    if relu is None or not clips_to_nonnegative(clip, editor):
        return False
    editor.set_input(clip, 0, relu.inputs[0])
    return True
