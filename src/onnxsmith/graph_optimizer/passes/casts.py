"""Casts after casts: the first goes where every value survives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.rules import RulePass

_DIGITS = {
    ir.DataType.BFLOAT16: 8,
    ir.DataType.FLOAT16: 11,
    ir.DataType.FLOAT: 24,
    ir.DataType.DOUBLE: 53,
}
"""The binary digits of a float's significand."""

_HOLDS = {
    ir.DataType.BFLOAT16: {ir.DataType.FLOAT, ir.DataType.DOUBLE},
    ir.DataType.FLOAT16: {ir.DataType.FLOAT, ir.DataType.DOUBLE},
    ir.DataType.FLOAT: {ir.DataType.DOUBLE},
}
"""The floats that hold every value of a float."""


@dataclass(frozen=True)
class SimplifyCasts(RulePass):
    """Skips a Cast that loses nothing before another Cast, and makes a CastLike a Cast."""

    name: ClassVar[str] = "simplify-casts"
    operators: ClassVar[frozenset[str]] = frozenset(("Cast", "CastLike"))

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Looks at a cast and at the one before it."""
        if node.op_type == "CastLike":
            return _as_cast(node, editor)
        first = editor.producer(node.inputs[0], "Cast")
        if first is None or first.inputs[0] is None:
            return False
        source = editor.dtype(first.inputs[0])
        middle, target = ir.DataType(editor.attribute(first, "to")), ir.DataType(editor.attribute(node, "to"))
        if source is None or source == middle:
            return False
        if not holds(middle, source):
            return editor.decline(node, f"the cast before it, {source.name} to {middle.name}, loses values")
        if target == source:
            editor.replace(node.outputs[0], first.inputs[0])
            return True
        if not _same_from(source, middle, target):
            return editor.decline(
                node, f"{source.name} to {target.name} need not be what it is by way of {middle.name}"
            )
        editor.set_input(node, 0, first.inputs[0])
        return True


def holds(wide: ir.DataType, narrow: ir.DataType) -> bool:
    """Whether a dtype holds every value of another: numbers of a byte or more, and truth values."""
    if wide == narrow:
        return True
    if narrow == ir.DataType.BOOL:
        return wide in _DIGITS or _is_whole(wide)
    if narrow in _DIGITS:
        return wide in _HOLDS.get(narrow, ())
    if not _is_whole(narrow):
        return False
    digits = narrow.bitwidth - narrow.is_signed()
    if wide in _DIGITS:
        return digits <= _DIGITS[wide]
    if not _is_whole(wide) or (narrow.is_signed() and not wide.is_signed()):
        return False
    return digits <= wide.bitwidth - wide.is_signed()


def _same_from(source: ir.DataType, middle: ir.DataType, target: ir.DataType) -> bool:
    """Whether a value of `source`, unchanged in `middle`, is cast to `target` alike from both."""
    if source == ir.DataType.BOOL:
        return target in _DIGITS or _is_whole(target)
    if target in _DIGITS:
        return True
    if source in _DIGITS:
        return False  # what is out of range is not defined
    if target == ir.DataType.BOOL:
        return True
    return _is_whole(target) and (middle not in _DIGITS or holds(target, source))


def _is_whole(dtype: ir.DataType) -> bool:
    return dtype.is_integer() and dtype.bitwidth >= 8


def _as_cast(node: ir.Node, editor: Editor) -> bool:
    dtype = editor.dtype(node.inputs[1])
    if dtype is None:
        return editor.decline(node, "the dtype that it casts to is not known")
    attributes = {"to": int(dtype)}
    if "saturate" in node.attributes:
        attributes["saturate"] = editor.attribute(node, "saturate")
    editor.replace_node(node, "Cast", [node.inputs[0]], attributes)
    return True
