"""Which elements of an axis a node picks."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic import Dim
from onnxsmith.graph_analysis.symbolic.layout import slice_of
from onnxsmith.graph_optimizer.editor import Editor, Unknown
from onnxsmith.graph_optimizer.passes.opset_forms import AxisSlice, slices_of, splits_of


@dataclass(frozen=True)
class Part:
    """What a value takes out of another one: along one axis, the elements of a range."""

    data: ir.Value
    axis: int
    picked: range


def picked(part: AxisSlice, size: Dim) -> range | None:
    """The elements that a slice picks of an axis; None where that depends on a size that is not known.

    Of an axis of unknown size only the slices that certainly lie in it for sizes from `end` on have an answer; it is
    for the caller to know that the axis is that long.
    """
    if isinstance(size, int):
        return range(size)[slice_of(part.start, part.end, part.step, size)]
    if part.start >= 0 and 0 <= part.end < 2**31 - 1 and part.step > 0:
        return range(part.start, part.end, part.step)
    return None


def as_slice(axis: int, elements: range) -> AxisSlice:
    """The slice that picks a range of elements that goes forwards."""
    return AxisSlice(axis, elements.start, max(elements.stop, elements.start), elements.step)


def part_of(editor: Editor, value: ir.Value | None) -> Part | None:
    """What a value is part of: a Slice of one axis, or a Split, of an axis of known size."""
    node = editor.producer(value, "Slice", "Split")
    if node is None or node.inputs[0] is None:
        return None
    data = node.inputs[0]
    shape = editor.shape(data)
    if shape is None:
        return None
    if node.op_type == "Slice":
        try:
            parts = slices_of(editor, node)
        except Unknown:
            return None
        if len(parts) != 1 or parts[0].axis >= len(shape):
            return None
        size = shape[parts[0].axis]
        elements = picked(parts[0], size) if isinstance(size, int) else None
        return None if elements is None else Part(data, parts[0].axis, elements)
    sizes = splits_of(editor, node)
    axis = editor.attribute(node, "axis", 0) % len(shape)
    if sizes is None or len(sizes) != len(node.outputs) or sum(sizes) != shape[axis]:
        return None
    index = next(index for index, output in enumerate(node.outputs) if output is value)
    start = sum(sizes[:index])
    return Part(data, axis, range(start, start + sizes[index]))
