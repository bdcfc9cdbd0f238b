"""Operators that slide a window, and those that resize: Conv, pools, Resize."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic.call import Call, Element, PartialShape, Shape, Unknown, from_front, rule
from onnxsmith.graph_analysis.symbolic.dims import (
    Dim,
    Expr,
    add,
    ceil_div,
    floor_div,
    is_nonnegative,
    mul,
    sub,
)

_INT32 = ir.DataType.INT32


class _Window:
    """The attributes of a sliding window over `rank` spatial axes."""

    def __init__(self, call: Call, rank: int, kernel: Sequence[Dim]) -> None:
        self.kernel = kernel
        self.strides: Sequence[int] = call.integers("strides") or [1] * rank
        self.dilations: Sequence[int] = call.integers("dilations") or [1] * rank
        self.pads: Sequence[int] = call.integers("pads") or [0] * (2 * rank)
        self.auto_pad = call.text("auto_pad", "NOTSET")
        self.ceil_mode = bool(call.integer("ceil_mode", 0))
        sizes = (len(kernel), len(self.strides), len(self.dilations), len(self.pads) // 2)
        if any(size != rank for size in sizes) or min(*self.strides, *self.dilations) < 1:
            raise Unknown

    def length(self, axis: int, dim: Dim) -> Dim | None:
        """How many places the window has on an axis."""
        stride = self.strides[axis]
        if self.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            return ceil_div(dim, stride)
        extent = add(mul(sub(self.kernel[axis], 1), self.dilations[axis]), 1)
        if not isinstance(extent, int):
            return None
        pads = 0, 0
        if self.auto_pad != "VALID":
            pads = self.pads[axis], self.pads[axis + len(self.strides)]
        room = sub(add(dim, sum(pads)), extent)
        if isinstance(room, int) and room < 0 and not (self.ceil_mode and room > -stride):
            raise Unknown
        if not self.ceil_mode:
            return add(floor_div(room, stride), 1)
        if not isinstance(room, int) or not isinstance(dim, int):
            return add(room, 1) if stride == 1 else None
        length = -(-room // stride) + 1
        # a window that would start in the padding at the end is left out
        return length - 1 if (length - 1) * stride >= dim + pads[0] else length


def _kernel(call: Call, weight: Shape) -> Sequence[Dim]:
    given: Sequence[Dim] | None = call.integers("kernel_shape")
    return given or weight[2:]


def _convolved(call: Call, data: Shape, weight: Shape) -> list[PartialShape]:
    if len(data) != len(weight):
        raise Unknown
    window = _Window(call, len(data) - 2, _kernel(call, weight))
    return [[data[0], weight[0], *(window.length(axis, dim) for axis, dim in enumerate(data[2:]))]]


@rule("Conv")
def _conv(call: Call) -> list[PartialShape]:
    return _convolved(call, call.shape(0), call.shape(1))


@rule("ConvInteger", dtypes=_INT32)
def _conv_integer(call: Call) -> list[PartialShape]:
    return _convolved(call, call.shape(0), call.shape(1))


@rule("QLinearConv", dtypes=7)
def _qlinear_conv(call: Call) -> list[PartialShape]:
    return _convolved(call, call.shape(0), call.shape(3))


@rule("DeformConv")
def _deform_conv(call: Call) -> list[PartialShape]:
    return _convolved(call, call.shape(0), call.shape(1))


@rule("ConvTranspose")
def _conv_transpose(call: Call) -> list[PartialShape]:
    data, weight = call.shape(0), call.shape(1)
    rank = len(data) - 2
    channels = mul(weight[1], call.integer("group", 1))
    fixed = call.integers("output_shape")
    if fixed:
        return [[data[0], channels, *fixed[-rank:]]]
    window = _Window(call, rank, _kernel(call, weight))
    extra = call.integers("output_padding") or [0] * rank
    result: list[Dim | None] = [data[0], channels]
    for axis, dim in enumerate(data[2:]):
        stride, kernel = window.strides[axis], window.kernel[axis]
        if window.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            result.append(mul(dim, stride))
            continue
        length = add(mul(sub(dim, 1), stride), add(mul(sub(kernel, 1), window.dilations[axis]), 1))
        length = add(length, extra[axis])
        if window.auto_pad != "VALID":
            length = sub(length, window.pads[axis] + window.pads[axis + rank])
        result.append(length)
    return [result]


@rule("MaxPool", dtypes=(0, ir.DataType.INT64))
def _max_pool(call: Call) -> list[PartialShape]:
    return [_pooled(call)] * 2


@rule("AveragePool", "LpPool")
def _average_pool(call: Call) -> list[PartialShape]:
    return [_pooled(call)]


def _pooled(call: Call) -> PartialShape:
    data = call.shape(0)
    window = _Window(call, len(data) - 2, call.integers("kernel_shape"))
    return [*data[:2], *(window.length(axis, dim) for axis, dim in enumerate(data[2:]))]


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(call: Call) -> list[PartialShape]:
    data = call.shape(0)
    return [[*data[:2], *[1] * (len(data) - 2)]]


@rule("MaxRoiPool")
def _max_roi_pool(call: Call) -> list[PartialShape]:
    return [[call.shape(1)[0], call.shape(0)[1], *call.integers("pooled_shape")]]


@rule("RoiAlign")
def _roi_align(call: Call) -> list[PartialShape]:
    return [
        [call.shape(1)[0], call.shape(0)[1], call.integer("output_height", 1), call.integer("output_width", 1)],
    ]


@rule("Upsample")
def _upsample(call: Call) -> list[PartialShape]:
    data = call.shape(0)
    scales = call.input(1).contents if call.opset >= 9 else call.attribute("scales", ir.AttributeType.FLOATS)
    factors: Sequence[Element] | None = scales
    if factors is None:
        return [[None] * len(data)]
    return [[scaled(dim, factor) for dim, factor in zip(data, factors, strict=True)]]


@rule("Resize")
def _resize(call: Call) -> list[PartialShape]:
    data = call.shape(0)
    result: list[Dim | None] = [None] * len(data)
    axes: Sequence[int] = [from_front(axis, len(data)) for axis in call.integers("axes", range(len(data)))]
    for axis, dim in enumerate(data):
        if axis not in axes:
            result[axis] = dim
    sizes_at = 3 if call.opset >= 11 else len(call.inputs)
    factors_at = 2 if call.opset >= 11 else 1
    if call.has(sizes_at) and call.input(sizes_at).shape != (0,):
        if call.text("keep_aspect_ratio_policy", "stretch") == "stretch":
            wanted = call.input(sizes_at).contents
            for axis, size in zip(axes, wanted or (), strict=wanted is not None):
                result[axis] = None if isinstance(size, float) or not _is_size(size) else size
            return [result]
        return [result]
    if call.opset >= 11 and call.has(2) and call.text("coordinate_transformation_mode") == "tf_crop_and_resize":
        return [result]  # the region matters; ONNX and its runtimes do not agree how
    factors = call.input(factors_at).contents if call.opset >= 10 else None
    for axis, factor in zip(axes, factors or (), strict=bool(factors)):
        result[axis] = scaled(data[axis], factor)
    return [result]


def _is_size(size: Dim | None) -> bool:
    return size is not None and is_nonnegative(size)


def scaled(dim: Dim, factor: Element) -> Dim | None:
    """A size times a factor in single precision, rounded down, as runtimes do it."""
    if not isinstance(factor, float):
        return None
    if factor == 1.0:
        return dim
    if isinstance(dim, Expr):
        return mul(dim, int(factor)) if factor.is_integer() and factor >= 1 else None
    single, double = math.floor(float(np.float32(dim) * np.float32(factor))), math.floor(dim * factor)
    return single if single == double else None


@rule("GridSample")
def _grid_sample(call: Call) -> list[PartialShape]:
    return [[*call.shape(0)[:2], *call.shape(1)[1:-1]]]


@rule("Col2Im")
def _col2im(call: Call) -> list[PartialShape]:
    batch, channels, _ = call.shape(0)
    image, block = call.numbers(1), call.numbers(2)
    return [[batch, floor_div(channels, math.prod(block)), *image]]
