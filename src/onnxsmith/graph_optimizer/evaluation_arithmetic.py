"""Arithmetic that has one right answer to the last bit, evaluated with NumPy; all else is ONNX Runtime's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxsmith.graph_optimizer.evaluation_table import TABLE, Call, NotHere, operator

_ROUNDED_ALIKE = frozenset("fd")
"""The codes of float32 and float64: IEEE 754 says how each elementary operation rounds."""
_WHOLE = frozenset("iu")
_OLD_BROADCASTING = 7
"""The opset before which operands broadcast by attributes."""
_EXACT = float(1 << 31)
"""Whole numbers below this are exact in whatever way they are added up."""
_AXES_ARE_INPUT = {"ReduceSum": 13, "ReduceMax": 18, "ReduceMin": 18, "ReduceProd": 18}


def _operands(call: Call, kinds: frozenset[str]) -> tuple[np.ndarray, np.ndarray]:
    """The two operands of a node, of one dtype that is of these kinds or codes."""
    left, right = call.input(0), call.input(1)
    if call.opset < _OLD_BROADCASTING or call.given != 2 or left.dtype != right.dtype:
        raise NotHere
    if left.dtype.kind not in kinds and left.dtype.char not in kinds:
        raise NotHere
    return left, right


_name: str
_function: Callable[..., Any]


def _binary(op_type: str, function: Callable[..., Any], kinds: frozenset[str]) -> None:
    def evaluate(call: Call) -> list[np.ndarray]:
        return [np.asarray(function(*_operands(call, kinds)))]

    TABLE[op_type] = evaluate


def _unary(op_type: str, function: Callable[..., Any], kinds: frozenset[str]) -> None:
    def evaluate(call: Call) -> list[np.ndarray]:
        data = call.input(0)
        if data.dtype.kind not in kinds and data.dtype.char not in kinds:
            raise NotHere
        return [np.asarray(function(data), data.dtype)]

    TABLE[op_type] = evaluate


for _name, _function in {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}.items():
    _binary(_name, _function, _ROUNDED_ALIKE | _WHOLE)
for _name, _function in {
    "Less": np.less,
    "Greater": np.greater,
    "LessOrEqual": np.less_equal,
    "GreaterOrEqual": np.greater_equal,
}.items():
    _binary(_name, _function, _ROUNDED_ALIKE | _WHOLE)
_binary("Equal", np.equal, _ROUNDED_ALIKE | _WHOLE | {"?"})
for _name, _function in {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}.items():
    _binary(_name, _function, frozenset("?"))
for _name, _function in {
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}.items():
    _binary(_name, _function, _WHOLE)
_unary("Not", np.logical_not, frozenset("?"))
_unary("BitwiseNot", np.invert, _WHOLE)
for _name, _function in {"Neg": np.negative, "Abs": np.abs}.items():
    _unary(_name, _function, _ROUNDED_ALIKE | _WHOLE)
for _name, _function in {"Floor": np.floor, "Ceil": np.ceil, "Sqrt": np.sqrt}.items():
    _unary(_name, _function, _ROUNDED_ALIKE)


@operator("Reciprocal")
def _reciprocal(call: Call) -> list[np.ndarray]:
    data = call.input(0)
    if data.dtype.char not in _ROUNDED_ALIKE:
        raise NotHere
    return [np.asarray(np.divide(data.dtype.type(1), data))]


@operator("Div")
def _div(call: Call) -> list[np.ndarray]:
    left, right = _operands(call, _ROUNDED_ALIKE | _WHOLE)
    if left.dtype.kind == "f":
        return [np.asarray(np.divide(left, right))]
    _require_divisor(left, right)
    quotient = np.floor_divide(left, right)
    if left.dtype.kind == "i":  # rounds towards zero
        quotient = quotient + ((quotient < 0) & (quotient * right != left)).astype(left.dtype)
    return [np.asarray(quotient)]


@operator("Mod")
def _mod(call: Call) -> list[np.ndarray]:
    left, right = _operands(call, _WHOLE)
    _require_divisor(left, right)
    return [np.asarray((np.fmod if call.integer("fmod", 0) else np.mod)(left, right))]


def _require_divisor(left: np.ndarray, right: np.ndarray) -> None:
    """Refuses divisions that a processor refuses too."""
    if (right == 0).any():
        raise NotHere
    if left.dtype.kind == "i" and (right == -1).any() and (left == np.iinfo(left.dtype).min).any():
        raise NotHere


@operator("Min", "Max")
def _extremes(call: Call) -> list[np.ndarray]:
    operands = [call.input(index) for index in range(call.given)]
    if any(operand.dtype != operands[0].dtype or operand.dtype.kind not in _WHOLE for operand in operands):
        raise NotHere
    result = operands[0]
    for operand in operands[1:]:
        result = (np.minimum if call.op_type == "Min" else np.maximum)(result, operand)
    return [np.asarray(result)]


@operator("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin")
def _reduce(call: Call) -> list[np.ndarray]:
    data = call.input(0)
    if data.dtype.char not in "lqi" or data.size == 0:
        raise NotHere
    if call.opset >= _AXES_ARE_INPUT[call.op_type]:
        axes = call.numbers(1) if call.has(1) else []
        if not axes and call.integer("noop_with_empty_axes", 0):
            return [data]
    else:
        axes = list(call.integers("axes", ()))
    over, keep = tuple(axes) or None, bool(call.integer("keepdims", 1))
    if call.op_type in ("ReduceMax", "ReduceMin"):
        function = np.max if call.op_type == "ReduceMax" else np.min
        return [np.asarray(function(data, axis=over, keepdims=keep))]
    total = np.sum if call.op_type == "ReduceSum" else np.prod
    if not total(np.abs(data.astype(np.float64))) < _EXACT:  # ONNX Runtime adds up in floats
        raise NotHere
    return [np.asarray(total(data, axis=over, keepdims=keep, dtype=data.dtype))]


@operator("CumSum")
def _cum_sum(call: Call) -> list[np.ndarray]:
    data = call.input(0)
    if data.dtype.char not in "lqi" or call.integer("exclusive", 0) or call.integer("reverse", 0):
        raise NotHere
    return [np.cumsum(data, axis=call.numbers(1)[0], dtype=data.dtype)]


@operator("Range")
def _range(call: Call) -> list[np.ndarray]:
    start, limit, delta = (call.input(index).reshape(()) for index in range(3))
    if start.dtype.kind == "f":
        # A sum of whole numbers is exact in whatever order it is made.
        if start.dtype.char not in _ROUNDED_ALIKE or not all(
            float(number).is_integer() and abs(number) < 1 << 22 for number in (start, limit, delta)
        ):
            raise NotHere
    elif start.dtype.kind not in _WHOLE:
        raise NotHere
    if delta == 0:
        raise NotHere
    return [np.arange(int(start), int(limit), int(delta)).astype(start.dtype)]


@operator("Cast")
def _cast(call: Call) -> list[np.ndarray]:
    return [_converted(call, np.dtype(_numpy_dtype(call)))]


@operator("CastLike")
def _cast_like(call: Call) -> list[np.ndarray]:
    return [_converted(call, call.input(1).dtype)]


def _numpy_dtype(call: Call) -> np.dtype[Any]:
    to = call.integer("to", None)
    if not isinstance(to, int) or to == ir.DataType.STRING:
        raise NotHere
    return ir.DataType(to).numpy()


_CASTS = frozenset("?bBhHiIlLqQfd")
"""The codes of the dtypes that C casts between, where the value fits."""


def _converted(call: Call, target: np.dtype[Any]) -> np.ndarray:
    data = call.input(0)
    if data.dtype == target:
        return data
    if data.dtype in (np.float16, ml_dtypes.bfloat16) and target == np.float32:
        return data.astype(target)
    if data.dtype.char not in _CASTS or target.char not in _CASTS:
        raise NotHere
    if data.dtype.kind == "f" and target.kind in _WHOLE and data.size:
        bounds = np.iinfo(target)
        low, high = float(data.min()), float(data.max())  # NaN where one is in it
        if not (bounds.min <= low and high <= bounds.max):
            raise NotHere
    return data.astype(target)
