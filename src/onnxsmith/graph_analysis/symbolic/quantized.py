"""ONNX Runtime's quantised operators, as its quantiser writes them: their shapes are those of the float ones."""

from __future__ import annotations

from onnxsmith.graph_analysis.symbolic.call import Call, PartialShape, Unknown, rule
from onnxsmith.graph_analysis.symbolic.elementwise import broadcast
from onnxsmith.graph_analysis.symbolic.layout import concatenated

_OPERAND = 3
"""An operand, its scale and its zero point."""


@rule("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
def _binary(call: Call) -> list[PartialShape]:
    return [broadcast(call.shape(0), call.shape(_OPERAND))]


@rule("com.microsoft.QLinearLeakyRelu", "com.microsoft.QLinearSigmoid", "com.microsoft.QLinearSoftmax")
def _unary(call: Call) -> list[PartialShape]:
    return [call.shape(0)]


@rule("com.microsoft.QLinearConcat", dtypes=2)
def _concat(call: Call) -> list[PartialShape]:
    return [concatenated(call, call.inputs[2::_OPERAND])]


@rule("com.microsoft.QLinearGlobalAveragePool")
def _global_average_pool(call: Call) -> list[PartialShape]:
    data = call.shape(0)
    if call.integer("channels_last", 0):
        raise Unknown
    return [[*data[:2], *[1] * (len(data) - 2)]]
