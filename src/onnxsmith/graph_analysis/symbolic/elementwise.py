"""Operators that work element by element, and what has the shape of its input."""

from __future__ import annotations

import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic.call import Call, PartialShape, Shape, Unknown, rule
from onnxsmith.graph_analysis.symbolic.dims import Dim, is_not_one

_BOOL = ir.DataType.BOOL


def broadcast_dim(left: Dim, right: Dim) -> Dim | None:
    """The size that two sizes broadcast to, given that they do; None where it is not known."""
    if left == right or right == 1:
        return left
    if left == 1:
        return right
    if isinstance(left, int):
        if isinstance(right, int):
            raise Unknown
        return left
    if isinstance(right, int) or is_not_one(right):
        return right
    return left if is_not_one(left) else None


def broadcast(*shapes: PartialShape) -> list[Dim | None]:
    """The shape that shapes broadcast to."""
    result: list[Dim | None] = list(shapes[0])
    for shape in shapes[1:]:
        if len(shape) > len(result):
            longer, shorter = list(shape), result
        else:
            longer, shorter = result, list(shape)
        start = len(longer) - len(shorter)
        result = longer[:start]
        for one, other in zip(longer[start:], shorter, strict=True):
            result.append(_broadcast_partial(one, other))
    return result


def _broadcast_partial(one: Dim | None, other: Dim | None) -> Dim | None:
    if one is None or other is None:
        known = other if one is None else one
        return known if known is not None and is_not_one(known) else None
    return broadcast_dim(one, other)


@rule(
    *["Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Clip", "Cos", "Cosh", "CumProd", "CumSum", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Hardmax", "Identity", "InstanceNormalization", "LRN", "LeakyRelu", "Log", "LogSoftmax", "LpNormalization", "MeanVarianceNormalization", "Mish", "Neg", "Reciprocal", "Relu", "ReverseSequence", "Round", "ScaledTanh", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Trilu", "GroupNormalization", "RMSNormalization", "RotaryEmbedding", "ScatterElements", "ScatterND", "Scatter", "BitwiseNot", "Not", "ImageScaler", "ParametricSoftplus", "TensorScatter"]
)
def same_as_input(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("IsNaN", "IsInf", dtypes=_BOOL)
def test_of_input(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule(*["Add", "Sub", "Mul", "Div", "Pow", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift", "PRelu", "And", "Or", "Xor", "Mod"])
def binary(call: Call) -> list[PartialShape]:
    left, right = call.shape(0), call.shape(1)
    if left == right:
        return [left]
    if call.node.op_type == "PRelu":
        return [left]
    if call.opset < 7:
        return [left]
    return [broadcast(left, right)]


@rule("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", dtypes=_BOOL)
def comparison(call: Call) -> list[PartialShape]:
    return binary(call)


@rule("Max", "Min", "Sum", "Mean")
def variadic(call: Call) -> list[PartialShape]:
    return [broadcast(*(call.shape(index) for index in range(len(call.inputs))))]


@rule("Where", dtypes=1)
def where(call: Call) -> list[PartialShape]:
    return [broadcast(call.shape(0), call.shape(1), call.shape(2))]


def _named_dtype(call: Call, name: str, default: ir.DataType | None) -> ir.DataType | None:
    number = call.int(name)
    if number is None:
        if name in call.node.attributes:  # opset 1 had texts
            raise Unknown
        return default
    return ir.DataType(number)


def _cast_dtype(call: Call) -> ir.DataType | None:
    return _named_dtype(call, "to", None)


def _like_dtype(call: Call) -> ir.DataType | None:
    return _named_dtype(call, "dtype", call.input(0).dtype)


def _float_dtype(call: Call) -> ir.DataType | None:
    return _named_dtype(call, "dtype", ir.DataType.FLOAT)


@rule("Cast", dtypes=_cast_dtype)
def cast(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("CastLike", dtypes=1)
def cast_like(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("RandomNormalLike", "RandomUniformLike", "EyeLike", dtypes=_like_dtype)
def like_input(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("Bernoulli", dtypes=_like_dtype)
def bernoulli(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("RandomNormal", "RandomUniform", dtypes=_float_dtype)
def random(call: Call) -> list[PartialShape]:
    shape = call.ints("shape")
    if shape is None:
        raise Unknown
    return [shape]


@rule("Multinomial", dtypes=lambda call: _named_dtype(call, "dtype", ir.DataType.INT32))
def multinomial(call: Call) -> list[PartialShape]:
    return [[call.shape(0)[0], call.int("sample_size", 1)]]


def _mask_dtype(call: Call) -> ir.DataType | None:
    return _BOOL if call.opset >= 10 else call.input(0).dtype


@rule("Dropout", dtypes=(0, _mask_dtype))
def dropout(call: Call) -> list[Shape]:
    return [call.shape(0), call.shape(0)]


def _quantized_dtype(call: Call) -> ir.DataType | None:
    if call.has(2):
        return call.input(2).dtype
    number = call.int("output_dtype", 0)
    return ir.DataType(number) if number else ir.DataType.UINT8


def _dequantized_dtype(call: Call) -> ir.DataType | None:
    number = call.int("output_dtype", 0)
    return ir.DataType(number) if number else call.input(1).dtype


@rule("QuantizeLinear", dtypes=_quantized_dtype)
def quantize(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("DequantizeLinear", dtypes=_dequantized_dtype)
def dequantize(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("DynamicQuantizeLinear", dtypes=(ir.DataType.UINT8, ir.DataType.FLOAT, ir.DataType.UINT8))
def dynamic_quantize(call: Call) -> list[PartialShape]:
    return [call.shape(0), (), ()]
