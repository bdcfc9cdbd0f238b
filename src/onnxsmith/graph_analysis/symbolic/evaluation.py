"""What small tensors contain: arithmetic on shapes, element by element, with symbols in it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic.call import Call, Contents, Element, Info, Unknown, contents, from_front
from onnxsmith.graph_analysis.symbolic.dims import (
    Dim,
    Expr,
    TooComplex,
    add,
    dim_max,
    dim_min,
    exact_div,
    floor_div,
    is_nonnegative,
    mod,
    mul,
    product,
    sub,
)
from onnxsmith.graph_analysis.symbolic.layout import ENDLESS, slice_of
from onnxsmith.graph_analysis.symbolic.selection import reduced_axes

_FLOATS = frozenset((ir.DataType.FLOAT, ir.DataType.DOUBLE))


def _array(call: Call, index: int) -> np.ndarray:
    """An input's elements as an array of objects."""
    info = call.input(index)
    if info.contents is None or info.shape is None:
        raise Unknown
    if len(info.shape) == 1:
        array = np.empty(len(info.contents), dtype=object)
        array[:] = info.contents
        return array
    array = np.empty(len(info.contents), dtype=object)
    array[:] = info.contents
    return array.reshape(cast(tuple[int, ...], info.shape))


def _flat(array: np.ndarray) -> Contents:
    return tuple(array.reshape(-1))


# What only moves elements


@contents("Shape")
def _shape_of(call: Call, result: Info) -> Sequence[Element]:
    return call.shape(0)[call.integer("start", 0) : call.integer("end")]


@contents("Size")
def _size_of(call: Call, result: Info) -> Sequence[Element]:
    return [product(call.shape(0))]


@contents("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def _unchanged(call: Call, result: Info) -> Sequence[Element]:
    return call.contents(0)


@contents("Concat")
def _concat(call: Call, result: Info) -> Sequence[Element]:
    shape = cast(tuple[int, ...], result.shape)
    if len(shape) == 1:
        joined: list[Element] = []
        for info in call.inputs:
            if info is not None:
                joined.extend(_elements(info))
        return joined
    arrays = [_array(call, index) for index in range(len(call.inputs))]
    return _flat(np.concatenate(arrays, axis=call.integer("axis", 1)))


def _elements(info: Info) -> Sequence[Element]:
    """The elements of a vector, as many unknown ones where they are not known."""
    if info.contents is not None:
        return info.contents
    if info.shape is None or not isinstance(info.shape[0], int):
        raise Unknown
    return [None] * info.shape[0]


@contents("Gather")
def _gather(call: Call, result: Info) -> Sequence[Element]:
    indices = call.numbers(1)
    if len(call.shape(0)) == 1:
        data = call.contents(0)
        return [data[index] for index in indices]
    array = _array(call, 0)
    places = np.array(indices, dtype=np.int64).reshape(cast(tuple[int, ...], call.shape(1)))
    return _flat(np.take(array, places, axis=call.integer("axis", 0)))


@contents("Slice")
def _slice(call: Call, result: Info) -> Sequence[Element]:
    array = _array(call, 0)
    if call.opset < 10:
        starts, ends, axes, steps = call.integers("starts"), call.integers("ends"), call.integers("axes"), None
    else:
        starts, ends = call.numbers(1), call.numbers(2)
        axes = call.numbers(3) if call.has(3) else None
        steps = call.numbers(4) if call.has(4) else None
    places = [slice(None)] * array.ndim
    for index, axis in enumerate(range(len(starts)) if axes is None else axes):
        place, step = from_front(axis, array.ndim), steps[index] if steps else 1
        if step == 0 or (step < 0 and ends[index] in ENDLESS):
            raise Unknown
        places[place] = slice_of(starts[index], ends[index], step, array.shape[place])
    return _flat(array[tuple(places)])


@contents("Split")
def _split(call: Call, result: Info) -> Sequence[Element]:
    array = _array(call, 0)
    shape = cast(tuple[int, ...], result.shape)
    return _flat(array[tuple(slice(0, size) for size in shape)])


@contents("Transpose")
def _transpose(call: Call, result: Info) -> Sequence[Element]:
    return _flat(np.transpose(_array(call, 0), call.integers("perm")))


@contents("Expand")
def _expand(call: Call, result: Info) -> Sequence[Element]:
    return _flat(np.broadcast_to(_array(call, 0), cast(tuple[int, ...], result.shape)))


@contents("Tile")
def _tile(call: Call, result: Info) -> Sequence[Element]:
    return _flat(np.tile(_array(call, 0), call.numbers(1)))


@contents("ConstantOfShape")
def _constant_of_shape(call: Call, result: Info) -> Sequence[Element]:
    value = call.attribute("value", ir.AttributeType.TENSOR)
    item: Element = 0.0 if value is None else value.numpy().reshape(-1)[0].item()
    return [int(item) if isinstance(item, bool) else item] * math.prod(cast(tuple[int, ...], result.shape))


@contents("Range")
def _range(call: Call, result: Info) -> Sequence[Element]:
    (start,), (step,) = call.contents(0), call.contents(2)
    if start is None or step is None or isinstance(start, float) or isinstance(step, float):
        raise Unknown
    return [add(start, mul(step, index)) for index in range(cast(tuple[int], result.shape)[0])]


# Arithmetic


def _unary(function: Callable[[Any], Element]) -> Callable[[Call, Info], Sequence[Element]]:
    def evaluate(call: Call, result: Info) -> Sequence[Element]:
        return [None if element is None else _tried(function, element) for element in call.contents(0)]

    return evaluate


def _binary(function: Callable[[Any, Any], Element]) -> Callable[[Call, Info], Sequence[Element]]:
    def evaluate(call: Call, result: Info) -> Sequence[Element]:
        rounded = _rounding(result.dtype)
        return [
            None if left is None or right is None else rounded(_tried(function, left, right))
            for left, right in zip(*_broadcast(call, 2, result), strict=True)
        ]

    return evaluate


def _broadcast(call: Call, count: int, result: Info) -> list[Sequence[Element]]:
    """The elements of inputs, each as often as its broadcast to the result needs it."""
    size = math.prod(cast(tuple[int, ...], result.shape))
    found: list[Sequence[Element]] = []
    for index in range(count):
        elements = call.contents(index)
        if len(elements) == 1 and size != 1:
            elements = elements * size
        elif len(elements) != size:
            elements = _flat(np.broadcast_to(_array(call, index), cast(tuple[int, ...], result.shape)))
        found.append(elements)
    return found


def _tried(function: Callable[..., Element], *arguments: Any) -> Element:
    try:
        return function(*arguments)
    except (ArithmeticError, TooComplex, TypeError, Unknown):
        return None


def _rounding(dtype: ir.DataType | None) -> Callable[[Element], Element]:
    """Brings the result of an operation in double precision to the dtype."""
    if dtype != ir.DataType.FLOAT:
        return _same
    return _single


def _same(element: Element) -> Element:
    return element


def _single(element: Element) -> Element:
    return float(np.float32(element)) if isinstance(element, float) else element


def _floats(*elements: Element) -> bool:
    return any(isinstance(element, float) for element in elements)


def _add(left: Any, right: Any) -> Element:
    return left + right if _floats(left, right) else add(left, right)


def _sub(left: Any, right: Any) -> Element:
    return left - right if _floats(left, right) else sub(left, right)


def _mul(left: Any, right: Any) -> Element:
    return left * right if _floats(left, right) else mul(left, right)


def _div(left: Any, right: Any) -> Element:
    if _floats(left, right):
        return cast(float, left / right)
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    exact = exact_div(left, right)
    if exact is not None:
        return exact
    # rounding down is rounding towards zero where nothing is negative
    return floor_div(left, right) if is_nonnegative(left) and is_nonnegative(right) else None


def _min(left: Any, right: Any) -> Element:
    return min(left, right) if _floats(left, right) else dim_min(left, right)


def _max(left: Any, right: Any) -> Element:
    return max(left, right) if _floats(left, right) else dim_max(left, right)


contents("Add")(_binary(_add))
contents("Sub")(_binary(_sub))
contents("Mul")(_binary(_mul))
contents("Div")(_binary(_div))


@contents("Mod")
def _mod(call: Call, result: Info) -> Sequence[Element]:
    like_c = bool(call.integer("fmod", 0))

    def remainder(left: Any, right: Any) -> Element:
        if _floats(left, right):
            return None
        if like_c and not (is_nonnegative(left) and is_nonnegative(right)):
            return None
        return mod(left, right)

    return _binary(remainder)(call, result)


@contents("Min", "Max")
def _extreme(call: Call, result: Info) -> Sequence[Element]:
    choose = _min if call.node.op_type == "Min" else _max
    columns = _broadcast(call, len(call.inputs), result)
    return [_folded(choose, row) for row in zip(*columns, strict=True)]


def _folded(function: Callable[[Any, Any], Element], elements: Sequence[Element]) -> Element:
    found = elements[0]
    for element in elements[1:]:
        if found is None or element is None:
            return None
        found = _tried(function, found, element)
    return found


def _neg(element: Any) -> Element:
    return -element if isinstance(element, float) else mul(element, -1)


def _abs(element: Any) -> Element:
    if isinstance(element, int | float):
        return abs(element)
    return element if is_nonnegative(element) else None


contents("Neg")(_unary(_neg))
contents("Abs")(_unary(_abs))
contents("Floor")(_unary(lambda element: float(math.floor(element))))
contents("Ceil")(_unary(lambda element: float(math.ceil(element))))
contents("Not")(_unary(lambda element: int(not element) if isinstance(element, int) else None))


@contents("Cast")
def _cast(call: Call, result: Info) -> Sequence[Element]:
    return [_converted(element, result.dtype) for element in call.contents(0)]


@contents("CastLike")
def _cast_like(call: Call, result: Info) -> Sequence[Element]:
    return _cast(call, result)


def _converted(element: Element, dtype: ir.DataType | None) -> Element:
    if element is None or dtype is None:
        return None
    if dtype in _FLOATS:
        return None if isinstance(element, Expr) else _rounding(dtype)(float(element))
    if dtype == ir.DataType.BOOL:
        if isinstance(element, Expr):
            return 1 if _tried(_differs_from_zero, element) else None
        return int(element != 0)
    if isinstance(element, float):
        return int(element) if math.isfinite(element) else None
    return element


def _differs_from_zero(element: Expr) -> bool:
    return is_nonnegative(sub(element, 1)) or is_nonnegative(sub(-1, element))


# Truth


def _equal(left: Any, right: Any) -> Element:
    if not isinstance(left, Expr) and not isinstance(right, Expr):
        return int(left == right)
    difference = sub(left, right)
    if difference == 0:
        return 1
    return 0 if isinstance(difference, int) or _differs_from_zero(difference) else None


def _greater(left: Any, right: Any) -> Element:
    if _floats(left, right):
        return int(left > right)
    difference = sub(left, right)
    if is_nonnegative(sub(difference, 1)):
        return 1
    return 0 if is_nonnegative(mul(difference, -1)) else None


def _negated(truth: Element) -> Element:
    return None if truth is None else int(not truth)


contents("Equal")(_binary(_equal))
contents("Greater")(_binary(_greater))
contents("Less")(_binary(lambda left, right: _greater(right, left)))
contents("LessOrEqual")(_binary(lambda left, right: _negated(_greater(left, right))))
contents("GreaterOrEqual")(_binary(lambda left, right: _negated(_greater(right, left))))


@contents("And", "Or", "Xor")
def _logic(call: Call, result: Info) -> Sequence[Element]:
    decisive = {"And": 0, "Or": 1}.get(call.node.op_type)
    function = {"And": operator.and_, "Or": operator.or_, "Xor": operator.xor}[call.node.op_type]
    found: list[Element] = []
    for left, right in zip(*_broadcast(call, 2, result), strict=True):
        if isinstance(left, int) and isinstance(right, int):
            found.append(function(left, right))
        else:
            found.append(decisive if decisive is not None and decisive in (left, right) else None)
    return found


@contents("Where")
def _where(call: Call, result: Info) -> Sequence[Element]:
    return [_chosen(condition, yes, no) for condition, yes, no in zip(*_broadcast_or_open(call, result), strict=True)]


def _broadcast_or_open(call: Call, result: Info) -> list[Sequence[Element]]:
    size = math.prod(cast(tuple[int, ...], result.shape))
    columns: list[Sequence[Element]] = []
    for index in range(3):
        try:
            columns.append(_broadcast(Call(call.node, [call.input(index)], call.opset), 1, result)[0])
        except Unknown:
            columns.append([None] * size)
    return columns


def _chosen(condition: Element, yes: Element, no: Element) -> Element:
    if isinstance(condition, int):
        return yes if condition else no
    return yes if yes is not None and yes == no else None


# Reductions


@contents("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin")
def _reduce(call: Call, result: Info) -> Sequence[Element]:
    array = _array(call, 0)
    axes = reduced_axes(call, call.input(0))
    if axes is None or array.size == 0 or result.dtype in _FLOATS:
        raise Unknown
    if axes and len(axes) < array.ndim:
        raise Unknown
    if not axes:
        return call.contents(0)
    function = {"ReduceProd": _mul, "ReduceSum": _add, "ReduceMax": _max, "ReduceMin": _min}[call.node.op_type]
    return [_folded(function, call.contents(0))]


@contents("CumSum")
def _cum_sum(call: Call, result: Info) -> Sequence[Element]:
    if len(call.shape(0)) != 1 or call.integer("exclusive", 0) or call.integer("reverse", 0) or result.dtype in _FLOATS:
        raise Unknown
    total: Element = 0
    found: list[Element] = []
    for element in call.contents(0):
        total = None if total is None or element is None else add(cast(Dim, total), cast(Dim, element))
        found.append(total)
    return found
