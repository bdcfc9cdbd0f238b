"""A Pad after a Pad is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.opset_forms import Padding, pad_form, pads_of
from onnxsmith.graph_optimizer.passes.rules import RulePass


@dataclass(frozen=True)
class FusePads(RulePass):
    """Merges two Pads that fill in the same value, or both repeat the edge."""

    name: ClassVar[str] = "fuse-pads"
    operators: ClassVar[frozenset[str]] = frozenset(("Pad",))

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Merges a Pad with the one before it."""
        first = editor.producer(node.inputs[0], "Pad")
        if first is None or first.inputs[0] is None or editor.only_user(first.outputs[0]) is not node:
            return False
        inner, outer = pads_of(editor, first), pads_of(editor, node)
        if inner.mode != outer.mode or inner.mode not in ("constant", "edge"):
            return editor.decline(node, f"the Pad before it is of mode {inner.mode}, and this one of mode {outer.mode}")
        if any(number < 0 for number in (*inner.begins, *inner.ends, *outer.begins, *outer.ends)):
            return editor.decline(node, "one of the two Pads crops")
        if inner.mode == "constant" and not _same_value(inner.value, outer.value, editor):
            return editor.decline(node, "the two Pads fill in different values")
        begins = tuple(map(sum, zip(inner.begins, outer.begins, strict=True)))
        ends = tuple(map(sum, zip(inner.ends, outer.ends, strict=True)))
        inputs, attributes = pad_form(editor, first.inputs[0], Padding(begins, ends, inner.mode, outer.value))
        editor.replace_node(node, "Pad", inputs, attributes)
        return True


def _same_value(left: ir.Value | float | None, right: ir.Value | float | None, editor: Editor) -> bool:
    if left is right:
        return True
    numbers = []
    for value in (left, right):
        if not isinstance(value, ir.Value):
            numbers.append(0.0 if value is None else value)
            continue
        number = editor.scalar(value)
        if number is None:
            return False
        numbers.append(number)
    return numbers[0] == numbers[1] and str(float(numbers[0])) == str(float(numbers[1]))
