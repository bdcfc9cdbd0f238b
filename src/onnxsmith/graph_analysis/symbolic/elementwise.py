"""Operators that work element by element, and what has the shape of its input."""

from __future__ import annotations

import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic.call import Call, PartialShape, Shape, Unknown, rule
from onnxsmith.graph_analysis.symbolic.dims import Dim, is_cut_off, is_not_one

_BOOL = ir.DataType.BOOL


def broadcast_dim(left: Dim, right: Dim) -> Dim | None:
    """The size that two sizes broadcast to, given that they do; None where it is not known."""
    if right in (left, 1):
        return left
    if left == 1:
        return right
    if isinstance(left, int):
        if isinstance(right, int):
            raise Unknown
        return left
    if isinstance(right, int) or is_not_one(right) or is_cut_off(left, right):
        return right
    return left if is_not_one(left) or is_cut_off(right, left) else None


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


@rule("Abs", "Ceil", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Round", "Sign", "Sqrt", "Erf", "Clip", "Not")
@rule("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Sin", "Sinh", "Tan", "Tanh", "BitwiseNot")
@rule("Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Relu", "ScaledTanh", "Selu", "Shrink")
@rule("Sigmoid", "Softplus", "Softsign", "Swish", "ThresholdedRelu", "ParametricSoftplus", "ImageScaler")
@rule("Softmax", "LogSoftmax", "Hardmax", "CumSum", "CumProd", "Trilu", "ReverseSequence", "RotaryEmbedding")
@rule(
    "InstanceNormalization",
    "GroupNormalization",
    "RMSNormalization",
    "SimplifiedLayerNormalization",
    "LpNormalization",
    "LRN",
)
@rule(*(f"com.microsoft.{name}" for name in ("Gelu", "FastGelu", "QuickGelu", "BiasGelu", "RotaryEmbedding")))
@rule("com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization")
@rule("MeanVarianceNormalization", "Scatter", "ScatterElements", "ScatterND", "TensorScatter")
def _same_as_input(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("IsNaN", "IsInf", dtypes=_BOOL)
def _test_of_input(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("Add", "Sub", "Mul", "Div", "Pow", "Mod", "PRelu", "And", "Or", "Xor")
@rule("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift")
def _binary(call: Call) -> list[PartialShape]:
    left, right = call.shape(0), call.shape(1)
    if left == right:
        return [left]
    if call.opset < 7:
        return [left]
    return [broadcast(left, right)]


@rule("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", dtypes=_BOOL)
def _comparison(call: Call) -> list[PartialShape]:
    return [broadcast(call.shape(0), call.shape(1)) if call.opset >= 7 else call.shape(0)]


@rule("Max", "Min", "Sum", "Mean")
def _variadic(call: Call) -> list[PartialShape]:
    return [broadcast(*(call.shape(index) for index in range(len(call.inputs))))]


@rule("Where", dtypes=1)
def _where(call: Call) -> list[PartialShape]:
    return [broadcast(call.shape(0), call.shape(1), call.shape(2))]


def _named_dtype(call: Call, name: str, default: ir.DataType | None) -> ir.DataType | None:
    number = call.integer(name)
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
def _cast(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("CastLike", dtypes=1)
def _cast_like(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("RandomNormalLike", "RandomUniformLike", "EyeLike", dtypes=_like_dtype)
def _like_input(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("Bernoulli", dtypes=_like_dtype)
def _bernoulli(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("RandomNormal", "RandomUniform", dtypes=_float_dtype)
def _random(call: Call) -> list[PartialShape]:
    shape: PartialShape | None = call.integers("shape")
    if shape is None:
        raise Unknown
    return [shape]


@rule("Multinomial", dtypes=lambda call: _named_dtype(call, "dtype", ir.DataType.INT32))
def _multinomial(call: Call) -> list[PartialShape]:
    return [[call.shape(0)[0], call.integer("sample_size", 1)]]


def _mask_dtype(call: Call) -> ir.DataType | None:
    return _BOOL if call.opset >= 10 else call.input(0).dtype


@rule("Dropout", dtypes=(0, _mask_dtype))
def _dropout(call: Call) -> list[Shape]:
    return [call.shape(0), call.shape(0)]


def _quantized_dtype(call: Call) -> ir.DataType | None:
    if call.has(2):
        return call.input(2).dtype
    number = call.integer("output_dtype", 0)
    return ir.DataType(number) if number else ir.DataType.UINT8


def _dequantized_dtype(call: Call) -> ir.DataType | None:
    number = call.integer("output_dtype", 0)
    return ir.DataType(number) if number else call.input(1).dtype


@rule("QuantizeLinear", dtypes=_quantized_dtype)
def _quantize(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("DequantizeLinear", dtypes=_dequantized_dtype)
def _dequantize(call: Call) -> list[Shape]:
    return [call.shape(0)]


@rule("DynamicQuantizeLinear", dtypes=(ir.DataType.UINT8, ir.DataType.FLOAT, ir.DataType.UINT8))
def _dynamic_quantize(call: Call) -> list[PartialShape]:
    return [call.shape(0), (), ()]
