"""What nodes say by attributes at one opset and by inputs at another: read, and written for the model's opset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic.layout import ENDLESS
from onnxsmith.graph_optimizer.editor import Editor, Unknown

LAST = 2**63 - 1
"""The end of a slice that goes to the end of its axis."""

REDUCTIONS = frozenset(
    {
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceSumSquare",
    }
)

_AXES_ARE_INPUT = {"Squeeze": 13, "Unsqueeze": 13, "ReduceSum": 13} | dict.fromkeys(REDUCTIONS - {"ReduceSum"}, 18)
_SLICE_INPUTS = 10
_PAD_INPUTS = 11
_PAD_AXES = 18
_CLIP_INPUTS = 11
_SPLIT_INPUT = 13
_SPLIT_NUMBER = 18
_RESHAPE_INPUT = 5
_ALLOW_ZERO = 14


@dataclass(frozen=True)
class AxisSlice:
    """What a Slice does to one axis; `start` and `end` as in the node, so they may be negative or out of range."""

    axis: int
    start: int
    end: int
    step: int = 1


@dataclass(frozen=True)
class Padding:
    """What a Pad does.

    Attributes:
        begins: What goes before each axis; negative where it crops.
        ends: What goes after each axis.
        mode: `constant`, `reflect`, `edge` or `wrap`.
        value: What is filled in; None for zero.
    """

    begins: tuple[int, ...]
    ends: tuple[int, ...]
    mode: str
    value: ir.Value | float | None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is added and nothing cropped."""
        return not any(self.begins) and not any(self.ends)


def known_ints(editor: Editor, value: ir.Value | None) -> list[int] | None:
    """The whole numbers in a value of rank 0 or 1, where all of them are known; it need not be a constant."""
    if value is None:
        return None
    found = editor.facts.data(value)
    if isinstance(found, int):
        return [found]
    if isinstance(found, tuple) and all(isinstance(number, int) for number in found):
        return [number for number in found if isinstance(number, int)]
    return editor.ints(value)


def given(node: ir.Node, index: int) -> ir.Value | None:
    """An input, None where it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def normal_axes(axes: Iterable[int], rank: int) -> list[int] | None:
    """Axes counted from the front; None where one is out of range or comes twice."""
    normal = [axis + rank if axis < 0 else axis for axis in axes]
    if len(set(normal)) < len(normal) or not all(0 <= axis < rank for axis in normal):
        return None
    return normal


def axes_of(editor: Editor, node: ir.Node) -> list[int] | None:
    """The axes of a Squeeze, an Unsqueeze or a reduction, counted from the front and sorted; None where it has none.

    Raises:
        Unknown: They, or the rank that they are counted in, are not known, or make no sense.
    """
    if editor.opset >= _AXES_ARE_INPUT[node.op_type]:
        value = given(node, 1)
        if value is None:
            return None
        axes = known_ints(editor, value)
        if axes is None:
            raise Unknown("its axes are computed")
    else:
        axes = editor.attribute(node, "axes")
        if axes is None:
            return None
    rank = editor.rank(node.inputs[0])
    if rank is None:
        if node.op_type == "Unsqueeze" or any(axis < 0 for axis in axes):
            raise Unknown("the rank of its input is not known")
        return sorted(axes)
    normal = normal_axes(axes, rank + len(axes) if node.op_type == "Unsqueeze" else rank)
    if normal is None:
        raise Unknown("its axes do not fit its input")
    return sorted(normal)


def slices_of(editor: Editor, node: ir.Node) -> list[AxisSlice]:
    """What a Slice does, axis by axis.

    Raises:
        Unknown: Its bounds or axes are not known, or make no sense.
    """
    steps: Sequence[int] | None = None
    if editor.opset >= _SLICE_INPUTS:
        starts, ends = known_ints(editor, given(node, 1)), known_ints(editor, given(node, 2))
        axes = known_ints(editor, given(node, 3))
        steps = known_ints(editor, given(node, 4))
        if (axes is None and given(node, 3) is not None) or (steps is None and given(node, 4) is not None):
            raise Unknown("its axes or steps are computed")
    else:
        starts, ends = editor.attribute(node, "starts"), editor.attribute(node, "ends")
        axes = editor.attribute(node, "axes")
    if starts is None or ends is None:
        raise Unknown("its bounds are computed")
    axes = list(range(len(starts))) if axes is None else list(axes)
    if any(axis < 0 for axis in axes):
        rank = editor.rank(node.inputs[0])
        if rank is None:
            raise Unknown("the rank of its input is not known")
        axes = [axis + rank if axis < 0 else axis for axis in axes]
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or len(set(axes)) < len(axes) or 0 in steps:
        raise Unknown("its bounds make no sense")
    if any(step < 0 and end in ENDLESS for end, step in zip(ends, steps, strict=True)):
        raise Unknown("it goes backwards to an end that runtimes read differently")
    return [AxisSlice(*numbers) for numbers in zip(axes, starts, ends, steps, strict=True)]


def pads_of(editor: Editor, node: ir.Node) -> Padding:
    """What a Pad does.

    Raises:
        Unknown: How much it pads is not known.
    """
    rank = editor.rank(node.inputs[0])
    mode = editor.attribute(node, "mode", "constant")
    if editor.opset < _PAD_INPUTS:
        pads = editor.attribute(node, "pads", editor.attribute(node, "paddings"))
        value: ir.Value | float | None = editor.attribute(node, "value", 0.0)
        axes = None
    else:
        pads, value = known_ints(editor, given(node, 1)), given(node, 2)
        axes = known_ints(editor, given(node, 3))
        if axes is None and given(node, 3) is not None:
            raise Unknown("its axes are computed")
    if pads is None or rank is None:
        raise Unknown("how much it pads is computed" if pads is None else "the rank of its input is not known")
    normal = normal_axes(range(rank) if axes is None else axes, rank)
    if normal is None or len(pads) != 2 * len(normal):
        raise Unknown("its pads do not fit its input")
    begins, ends = [0] * rank, [0] * rank
    for index, axis in enumerate(normal):
        begins[axis], ends[axis] = pads[index], pads[index + len(normal)]
    return Padding(tuple(begins), tuple(ends), mode, value)


def bounds_of(editor: Editor, node: ir.Node) -> tuple[ir.Value | float | None, ir.Value | float | None]:
    """The bounds of a Clip, as values from opset 11 on and as numbers before; None where there is none."""
    if editor.opset >= _CLIP_INPUTS:
        return given(node, 1), given(node, 2)
    return editor.attribute(node, "min"), editor.attribute(node, "max")


def splits_of(editor: Editor, node: ir.Node) -> list[int] | None:
    """The sizes of the parts of a Split; None where they are not known numbers."""
    sizes = known_ints(editor, given(node, 1)) if editor.opset >= _SPLIT_INPUT else editor.attribute(node, "split")
    if sizes is not None or (editor.opset >= _SPLIT_INPUT and given(node, 1) is not None):
        return None if sizes is None else list(sizes)
    shape = editor.shape(node.inputs[0])
    if shape is None:
        return None
    axis = editor.attribute(node, "axis", 0)
    if not -len(shape) <= axis < len(shape):
        return None
    dim, parts = shape[axis], len(node.outputs)
    if not isinstance(dim, int):
        return None
    part = -(-dim // parts)
    sizes = [part] * (parts - 1) + [dim - part * (parts - 1)]
    return sizes if sizes[-1] >= 0 and (part * parts == dim or editor.opset >= _SPLIT_NUMBER) else None


def _numbers(editor: Editor, numbers: Iterable[int], hint: str) -> ir.Value:
    return editor.constant(np.array(list(numbers), dtype=np.int64), hint)


def axes_form(
    editor: Editor,
    op_type: str,
    data: ir.Value,
    axes: Sequence[int] | None,
    attributes: Mapping[str, Any] | None = None,
) -> tuple[list[ir.Value | None], dict[str, Any]]:
    """The inputs and attributes of a Squeeze, an Unsqueeze or a reduction with these axes, at the model's opset."""
    named = dict(attributes or {})
    named.pop("axes", None)
    if axes is None:
        return [data], named
    if editor.opset >= _AXES_ARE_INPUT[op_type]:
        return [data, _numbers(editor, axes, "axes")], named
    return [data], {**named, "axes": list(axes)}


def emit_with_axes(
    editor: Editor,
    op_type: str,
    data: ir.Value,
    axes: Sequence[int] | None,
    attributes: Mapping[str, Any] | None = None,
) -> ir.Value:
    """A Squeeze, an Unsqueeze or a reduction before the root."""
    inputs, named = axes_form(editor, op_type, data, axes, attributes)
    return editor.emit(op_type, inputs, named)


def slice_form(
    editor: Editor, data: ir.Value, parts: Sequence[AxisSlice]
) -> tuple[list[ir.Value | None], dict[str, Any]] | None:
    """The inputs and attributes of a Slice; None where the model's opset has none with such steps."""
    parts = sorted(parts, key=lambda part: part.axis)
    starts, ends = [part.start for part in parts], [part.end for part in parts]
    axes, steps = [part.axis for part in parts], [part.step for part in parts]
    plain = all(step == 1 for step in steps)
    if editor.opset < _SLICE_INPUTS:
        return ([data], {"starts": starts, "ends": ends, "axes": axes}) if plain else None
    inputs: list[ir.Value | None] = [data, _numbers(editor, starts, "starts"), _numbers(editor, ends, "ends")]
    inputs.append(_numbers(editor, axes, "axes"))
    if not plain:
        inputs.append(_numbers(editor, steps, "steps"))
    return inputs, {}


def pad_form(editor: Editor, data: ir.Value, padding: Padding) -> tuple[list[ir.Value | None], dict[str, Any]]:
    """The inputs and attributes of a Pad."""
    pads = [*padding.begins, *padding.ends]
    if editor.opset < _PAD_INPUTS:
        name = "pads" if editor.opset > 1 else "paddings"
        return [data], {"mode": padding.mode, name: pads, "value": padding.value}
    inputs: list[ir.Value | None] = [data, _numbers(editor, pads, "pads")]
    if padding.value is not None:
        assert isinstance(padding.value, ir.Value)
        inputs.append(padding.value)
    return inputs, {"mode": padding.mode}


def emit_split(editor: Editor, data: ir.Value, axis: int, sizes: Sequence[int]) -> tuple[ir.Value, ...]:
    """A Split before the root."""
    if editor.opset >= _SPLIT_INPUT:
        return editor.emit_many("Split", [data, _numbers(editor, sizes, "split")], {"axis": axis}, len(sizes))
    return editor.emit_many("Split", [data], {"axis": axis, "split": list(sizes)}, len(sizes))


def reshape_form(
    editor: Editor, data: ir.Value, target: Sequence[int], *, allow_zero: bool = False
) -> tuple[list[ir.Value | None], dict[str, Any]] | None:
    """The inputs and attributes of a Reshape; None where the model's opset has none that takes zeros as they are."""
    if editor.opset < _RESHAPE_INPUT:
        return None if allow_zero else ([data], {"shape": list(target)})
    if allow_zero and editor.opset < _ALLOW_ZERO:
        return None
    return [data, _numbers(editor, target, "shape")], {"allowzero": 1} if allow_zero else {}
