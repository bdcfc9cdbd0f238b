"""Operators that arrange elements: Reshape, Transpose, Concat, Split, Slice, Pad and their like."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic.call import (
    Call,
    Element,
    Info,
    PartialShape,
    Shape,
    Unknown,
    from_front,
    rule,
)
from onnxsmith.graph_analysis.symbolic.dims import (
    Dim,
    Expr,
    TooComplex,
    add,
    ceil_div,
    dim_max,
    dim_min,
    exact_div,
    floor_div,
    is_nonnegative,
    is_positive,
    mul,
    product,
    sub,
)
from onnxsmith.graph_analysis.symbolic.elementwise import broadcast

_INT64 = ir.DataType.INT64
_FAR = 1 << 31
"""A bound of a slice that is at least this far away means the end, whatever the size is."""

ENDLESS = (2**31 - 1, 2**63 - 1)
"""As the end of a slice that goes backwards, nothing by the standard, and past the first element in ONNX Runtime."""


@rule("Shape", dtypes=_INT64)
def _shape_of(call: Call) -> list[PartialShape]:
    rank = len(call.shape(0))
    return [[len(range(rank)[call.integer("start", 0) : call.integer("end")])]]


@rule("Size", dtypes=_INT64)
def _size_of(call: Call) -> list[PartialShape]:
    return [()]


@rule("Reshape")
def _reshape(call: Call) -> list[PartialShape]:
    given = call.shape_or_none(0)
    if call.opset < 5:
        target: Sequence[Element] = call.integers("shape")
    else:
        found = call.input(1)
        if found.contents is None:
            if found.shape is None or len(found.shape) != 1 or not isinstance(found.shape[0], int):
                raise Unknown
            return [[None] * found.shape[0]]
        target = found.contents
    return [reshaped(given, target, keeps_zeros=bool(call.integer("allowzero", 0)))]


def reshaped(given: Shape | None, target: Sequence[Element], *, keeps_zeros: bool) -> PartialShape:
    """The shape of a Reshape.

    A size that is known by an expression which may turn out to be 0 means, then, the size of the input there: it is
    told only where both come to the same.
    """
    dims: list[Dim | None] = []
    open_axes: list[int] = []
    doubtful: list[int] = []
    for axis, wanted in enumerate(target):
        if isinstance(wanted, float):
            raise Unknown
        if wanted == 0 and not keeps_zeros:
            dims.append(None if given is None else given[axis])
        elif wanted is None or (isinstance(wanted, int) and wanted < 0) or not is_nonnegative(wanted):
            if isinstance(wanted, int) and wanted != -1:
                raise Unknown
            open_axes.append(axis)
            dims.append(None)
        else:
            dims.append(wanted)
            if not keeps_zeros and not is_positive(wanted):
                # a 0 beyond the input's axes is an error
                same = given is not None and (axis >= len(given) or _vanishes_with(wanted, given[axis]))
                if not same:
                    doubtful.append(axis)
    for axis in doubtful:
        if not all(other is not None and is_positive(other) for index, other in enumerate(dims) if index != axis):
            dims[axis] = None
    if len(open_axes) == 1 and given is not None:
        rest = [dim for axis, dim in enumerate(dims) if axis != open_axes[0]]
        if all(dim is not None for dim in rest):
            _fill(dims, open_axes[0], given, [dim for dim in rest if dim is not None], target)
    return dims


def _fill(dims: list[Dim | None], axis: int, given: Shape, rest: list[Dim], target: Sequence[Element]) -> None:
    """Computes the one size that is left over."""
    if target[axis] != -1 and not all(is_positive(dim) for dim in rest):
        return  # it need not be -1, so with a size of 0 beside it, it can be anything
    total, others = product(given), product(rest)
    dims[axis] = exact_div(total, others)
    if dims[axis] is None and isinstance(total, Expr) and others != 0 and is_nonnegative(total):
        dims[axis] = floor_div(total, others)


def _vanishes_with(wanted: Dim, given: Dim) -> bool:
    """Whether the second is 0 wherever the first is."""
    if wanted == given:
        return True
    if isinstance(wanted, int) or isinstance(given, int) or len(wanted.terms) != 1:
        return False
    (monomial,) = wanted.terms
    return all(all(atom in other for atom in monomial) for other in given.terms)


@rule("Flatten")
def _flatten(call: Call) -> list[PartialShape]:
    given = call.shape(0)
    axis = call.integer("axis", 1)
    if not -len(given) <= axis <= len(given):
        raise Unknown
    axis = axis + len(given) if axis < 0 else axis
    return [[product(given[:axis]), product(given[axis:])]]


@rule("Transpose")
def _transpose(call: Call) -> list[PartialShape]:
    given = call.shape(0)
    order = call.integers("perm")
    if order is None:
        return [given[::-1]]
    if sorted(order) != list(range(len(given))):
        raise Unknown
    return [[given[axis] for axis in order]]


@rule("Squeeze")
def _squeeze(call: Call) -> list[PartialShape]:
    given = call.shape(0)
    axes = call.axes(len(given), 1, 13)
    if axes is None:
        if not all(isinstance(dim, int) for dim in given):
            raise Unknown
        return [[dim for dim in given if dim != 1]]
    return [[dim for axis, dim in enumerate(given) if axis not in axes]]


@rule("Unsqueeze")
def _unsqueeze(call: Call) -> list[PartialShape]:
    given = call.shape(0)
    if call.opset >= 13:
        axes = call.input(1)
        if axes.contents is None and axes.shape is not None and len(axes.shape) == 1:
            if not isinstance(axes.shape[0], int):
                raise Unknown
            return [[None] * (len(given) + axes.shape[0])]
        numbers = call.numbers(1)
    else:
        numbers = call.integers("axes")
    rank = len(given) + len(numbers)
    places = {from_front(axis, rank) for axis in numbers}
    if len(places) != len(numbers):
        raise Unknown
    rest = iter(given)
    return [[1 if axis in places else next(rest) for axis in range(rank)]]


@rule("Expand")
def _expand(call: Call) -> list[PartialShape]:
    found = call.input(1)
    if found.contents is None:
        if found.shape is None or not isinstance(found.shape[0], int):
            raise Unknown
        return [broadcast(call.shape(0), [None] * found.shape[0])]
    return [broadcast(call.shape(0), sizes(found.contents))]


def sizes(contents: Sequence[Element]) -> list[Dim | None]:
    """The contents of a tensor as sizes: what may be negative is not known."""
    result: list[Dim | None] = []
    for element in contents:
        if isinstance(element, float) or (isinstance(element, int) and element < 0):
            raise Unknown
        result.append(None if element is None or not is_nonnegative(element) else element)
    return result


@rule("Tile")
def _tile(call: Call) -> list[PartialShape]:
    given = call.shape(0)
    if call.opset < 6 or call.input(1).contents is None:
        return [[None] * len(given)]
    repeats = sizes(call.contents(1))
    if len(repeats) != len(given):
        raise Unknown
    return [[None if times is None else mul(dim, times) for dim, times in zip(given, repeats, strict=True)]]


@rule("Concat")
def _concat(call: Call) -> list[PartialShape]:
    return [concatenated(call, call.inputs)]


def concatenated(call: Call, parts: Sequence[Info | None]) -> PartialShape:
    """The shape of some inputs of a node along its axis."""
    shapes = [info.shape for info in parts if info is not None]
    known = [shape for shape in shapes if shape is not None]
    if not known:
        raise Unknown
    rank = len(known[0])
    if any(len(shape) != rank for shape in known):
        raise Unknown
    axis = call.axis(rank, 1)  # versions before 4 had a default
    result: list[Dim | None] = []
    for index in range(rank):
        if index == axis:
            total: Dim = 0
            for shape in known:
                total = add(total, shape[index])
            result.append(total if len(known) == len(shapes) else None)
        else:  # they are all the same, so the one that says most
            result.append(next((shape[index] for shape in known if isinstance(shape[index], int)), known[0][index]))
    return result


@rule("Split")
def _split(call: Call) -> list[PartialShape]:
    given = call.shape(0)
    axis = call.axis(len(given), 0)
    parts: Sequence[Dim | None]
    outputs = len(call.node.outputs)
    if call.opset >= 13 or (call.opset == 1 and call.has(1)):
        listed = sizes(call.contents(1)) if call.has(1) and call.input(1).contents is not None else None
        if listed is None and call.has(1):
            listed = [None] * outputs
    else:
        listed = call.integers("split")
    if listed is not None:
        parts = listed
    else:
        count = call.integer("num_outputs", outputs) if call.opset >= 18 else outputs
        chunk = ceil_div(given[axis], count) if call.opset >= 18 else exact_div(given[axis], count)
        if call.opset < 18 and chunk is None and isinstance(given[axis], Expr):
            chunk = floor_div(given[axis], count)
        if chunk is None:
            raise Unknown
        whole = exact_div(given[axis], count)
        last = whole if whole is not None else sub(given[axis], mul(chunk, count - 1))
        if not isinstance(last, int) and not is_nonnegative(last):
            parts = [chunk] * (count - 1) + [None]
        else:
            parts = [chunk] * (count - 1) + [last]
    return [[*given[:axis], part, *given[axis + 1 :]] for part in parts]


@rule("Slice")
def _slice(call: Call) -> list[PartialShape]:
    given = call.shape(0)
    result: list[Dim | None] = list(given)
    if call.opset < 10:
        starts: Sequence[Element] = call.integers("starts")
        ends: Sequence[Element] = call.integers("ends")
        axes, steps = call.integers("axes"), None
    else:
        axes = call.numbers(3) if call.has(3) and call.input(3).contents is not None else None
        if call.has(3) and axes is None:
            return [[None] * len(given)]
        count = _length(call, 1) or _length(call, 2) or len(axes or given)
        unknown: list[Element] = [None] * count
        starts = call.input(1).contents or unknown
        ends = call.input(2).contents or unknown
        steps = (call.input(4).contents or unknown) if call.has(4) else None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        place = from_front(axis, len(given))
        try:
            result[place] = slice_length(given[place], start, end, step)
        except TooComplex:
            result[place] = None
    return [result]


def _length(call: Call, index: int) -> int | None:
    shape = call.shape_or_none(index)
    return shape[0] if shape is not None and len(shape) == 1 and isinstance(shape[0], int) else None


def slice_of(start: int, end: int, step: int, size: int) -> slice:
    """What a Slice takes of an axis. ONNX clamps a start; Python leaves one before the first element where it is."""
    start += size if start < 0 else 0
    end += size if end < 0 else 0
    if step > 0:
        return slice(min(max(start, 0), size), min(max(end, 0), size), step)
    if not size:
        return slice(0, 0)
    start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return slice(start, None if end < 0 else end, step)


def slice_length(dim: Dim, start: Element, end: Element, step: Element) -> Dim | None:
    """How many elements a slice takes of a size; None where that is not known."""
    if end in ENDLESS and not (isinstance(step, int) and step > 0):
        return None
    if isinstance(dim, int) and isinstance(start, int) and isinstance(end, int) and isinstance(step, int) and step:
        return len(range(dim)[slice_of(start, end, step, dim)])
    if not isinstance(step, int) or isinstance(start, float) or isinstance(end, float) or start is None or end is None:
        return None
    if step == 0:
        raise Unknown
    if step < 0:
        whole = isinstance(start, int) and isinstance(end, int) and (start == -1 or start >= _FAR) and end <= -_FAR
        return ceil_div(dim, -step) if whole else None
    last = _bound(dim, end)
    if last is None:
        return None
    if not isinstance(start, int) or start >= 0:
        if not is_nonnegative(start):
            return None
        length = sub(last, start)
    elif start <= -_FAR:
        length = last
    elif last == dim:
        length = dim_min(-start, dim)
    else:
        length = sub(last, dim_max(add(dim, start), 0))
    if not is_nonnegative(length):
        length = dim_max(length, 0)
    return length if step == 1 else ceil_div(length, step)


def _bound(dim: Dim, bound: Dim) -> Dim | None:
    """The end of a forward slice, counted from the front and clamped."""
    if isinstance(bound, int):
        if bound >= _FAR:
            return dim
        if bound <= -_FAR:
            return 0
        if bound < 0:
            return dim_max(add(dim, bound), 0)
    if not is_nonnegative(bound):
        return None
    return dim_min(bound, dim)


@rule("Pad")
def _pad(call: Call) -> list[PartialShape]:
    given = call.shape(0)
    rank = len(given)
    axes: Sequence[int] = range(rank)
    if call.opset >= 11:
        if call.has(3):
            if call.input(3).contents is None:
                return [[None] * rank]
            axes = [from_front(axis, rank) for axis in call.numbers(3)]
        if call.input(1).contents is None:
            return [[None if axis in axes else dim for axis, dim in enumerate(given)]]
        pads: Sequence[Element] = call.contents(1)
    else:
        pads = call.integers("pads", call.integers("paddings"))
    if len(pads) != 2 * len(axes):
        raise Unknown
    result: list[Dim | None] = list(given)
    for index, axis in enumerate(axes):
        before, after = pads[index], pads[index + len(axes)]
        if before is None or after is None or isinstance(before, float) or isinstance(after, float):
            result[axis] = None
        else:
            padded = add(add(given[axis], before), after)
            result[axis] = padded if isinstance(padded, int) or is_nonnegative(padded) else None
    return [result]


@rule("DepthToSpace")
def _depth_to_space(call: Call) -> list[PartialShape]:
    batch, channels, height, width = call.shape(0)
    block = call.integer("blocksize")
    return [[batch, exact_div(channels, block * block), mul(height, block), mul(width, block)]]


@rule("SpaceToDepth")
def _space_to_depth(call: Call) -> list[PartialShape]:
    batch, channels, height, width = call.shape(0)
    block = call.integer("blocksize")
    return [[batch, mul(channels, block * block), floor_div(height, block), floor_div(width, block)]]


def _filled_dtype(call: Call) -> ir.DataType | None:
    value = call.attribute("value", ir.AttributeType.TENSOR)
    return ir.DataType.FLOAT if value is None else value.dtype


@rule("ConstantOfShape", dtypes=_filled_dtype)
def _constant_of_shape(call: Call) -> list[PartialShape]:
    found = call.input(0)
    if found.contents is None:
        if found.shape is None or not isinstance(found.shape[0], int):
            raise Unknown
        return [[None] * found.shape[0]]
    return [sizes(found.contents)]


@rule("Range")
def _range(call: Call) -> list[PartialShape]:
    if any(call.input(index).contents is None for index in range(3)):
        return [[None]]
    (start,), (limit,), (delta,) = call.contents(0), call.contents(1), call.contents(2)
    if isinstance(start, float) or isinstance(limit, float) or isinstance(delta, float):
        return [[None]]
    if start is None or limit is None or not isinstance(delta, int) or delta == 0:
        return [[None]]
    distance = sub(limit, start)
    length = ceil_div(distance, delta) if delta > 0 else ceil_div(mul(distance, -1), -delta)
    return [[length if is_nonnegative(length) else dim_max(length, 0)]]


@rule("CenterCropPad")
def _center_crop_pad(call: Call) -> list[PartialShape]:
    given = call.shape(0)
    wanted = sizes(call.contents(1))
    axes = call.integers("axes", range(len(given)))
    result: list[Dim | None] = list(given)
    for axis, dim in zip(axes, wanted, strict=True):
        result[from_front(axis, len(given))] = dim
    return [result]
