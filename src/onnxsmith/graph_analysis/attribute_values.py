"""Attributes as short values: what a reader wants to see of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnxsmith.model.specs import dtype_name, format_shape, shape_dims, spec_of

AttributeValue = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]

_MOST_ITEMS = 16
_LONGEST_TEXT = 120


def attribute_value(attribute: ir.Attr) -> AttributeValue:
    """A number, a text, a short list of either, or what stands for more.

    Floats are rounded to the 7 digits that float32 has. A tensor is "float32[3, 4]", a subgraph "graph(12 nodes)",
    bytes are "<9 bytes>", a long list ends in "… (300 in all)", and "@alpha" is the attribute `alpha` of the function
    that the node is in.
    """
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    value: Any = attribute.value
    match attribute.type:
        case ir.AttributeType.INT:
            return int(value)
        case ir.AttributeType.FLOAT:
            return _rounded(value)
        case ir.AttributeType.STRING:
            return _text(value)
        case ir.AttributeType.INTS:
            return _short([int(item) for item in value])
        case ir.AttributeType.FLOATS:
            return _short([_rounded(item) for item in value])
        case ir.AttributeType.STRINGS:
            return _short([_text(item) for item in value])
        case ir.AttributeType.TENSORS | ir.AttributeType.GRAPHS | ir.AttributeType.TYPE_PROTOS:
            return _short([_whole(item) for item in value])
        case _:
            return _whole(value)


def _short(items: Sequence[Any]) -> AttributeValue:
    if len(items) <= _MOST_ITEMS:
        return tuple(items)
    return f"[{', '.join(map(str, items[:_MOST_ITEMS]))}, … ({len(items)} in all)]"


def _rounded(value: float) -> float:
    return float(f"{value:.7g}")


def _text(value: str | bytes) -> str:
    if isinstance(value, bytes):
        return f"<{len(value):,} bytes>"
    return value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}… ({len(value):,} characters)"


def _whole(value: Any) -> str:
    if isinstance(value, ir.Graph):
        return f"graph({len(value)} node{'s' if len(value) != 1 else ''})"
    if isinstance(value, ir.TypeAndShape):
        return str(spec_of(ir.Value(name="", type=value.type, shape=value.shape)))
    return f"{dtype_name(value.dtype)}{format_shape(shape_dims(value.shape))}"
