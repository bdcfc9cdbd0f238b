"""Steps of the fuzzer that compute element by element, along axes, and between types."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from fuzzer_core import Fuzzer

_UNARY = (
    "Relu Neg Abs Sqrt Exp Log Tanh Sigmoid Erf Floor Ceil Round Sign Identity Reciprocal Softplus Softsign IsNaN IsInf"
)
_UNARY += " Not Elu Selu LeakyRelu HardSigmoid HardSwish Sin Cos Celu ThresholdedRelu Gelu Mish Dropout Atan Det"
_BINARY = "Add Sub Mul Div Pow Max Min Mod And Or Xor Equal Less Greater LessOrEqual GreaterOrEqual PRelu MatMul"
_BINARY += " BitShift Sum Mean BitwiseAnd"
_REDUCE = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL2 ReduceL1 ReduceSumSquare ReduceLogSumExp"
_ARG = "ArgMax ArgMin"
_AXIS_NODES = "Softmax LogSoftmax Hardmax Flatten CumSum LpNormalization"
_NUMBERS = [TensorProto.FLOAT] * 3 + [TensorProto.INT64] * 2 + [TensorProto.DOUBLE, TensorProto.FLOAT16]
_NUMBERS += [TensorProto.INT32, TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT8]


def unary_step(fuzz: Fuzzer) -> None:
    value = fuzz.value()
    op = fuzz.pick(_UNARY.split())
    if value is None:
        return
    attributes = {"alpha": float(fuzz.pick([0.1, 1.0, 0.0]))} if op in ("LeakyRelu", "Elu") else {}
    fuzz.add(op, [value], **attributes)


def binary_step(fuzz: Fuzzer) -> None:
    value = fuzz.value()
    if value is None:
        return
    kind = fuzz.env[value].dtype.kind
    usual = fuzz.chance(0.7) and kind != "b"
    op = fuzz.pick(["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"] if usual else _BINARY.split())
    other = fuzz.operand(value)
    pair = [value, other] if fuzz.chance(0.65) else [other, value]
    if op in ("Max", "Min", "Sum", "Mean") and fuzz.chance(0.3):
        pair.append(fuzz.operand(value))
    fuzz.add(op, pair, **({"fmod": 1} if op == "Mod" and kind == "f" else {}))


def same_step(fuzz: Fuzzer) -> None:
    """A node that stands there already, again."""
    nodes = [node for node in fuzz.scope.nodes if len(node.output) == 1 and node.op_type not in ("If", "Loop")]
    if not nodes:
        return
    node = onnx.NodeProto()
    node.CopyFrom(fuzz.pick(nodes))
    node.output[0] = fuzz.name()
    got = fuzz.evaluate(node, list(node.output))
    if got is not None:
        fuzz.env[node.output[0]] = got[0]
        fuzz.scope.nodes.append(node)
        fuzz.scope.own.append(node.output[0])


def cast_step(fuzz: Fuzzer) -> None:
    value = fuzz.value()
    for _ in range(fuzz.pick([1, 1, 2])):
        if value is not None:
            made = fuzz.add("Cast", [value], to=int(fuzz.pick(_NUMBERS)))
            value = made[0] if made else None


def some_axes(fuzz: Fuzzer, rank: int, most: int = 2) -> list[int]:
    axes = [int(axis) for axis in fuzz.rng.permutation(rank)[: int(fuzz.rng.integers(0, most + 1))]]
    return [axis - rank if fuzz.chance(0.4) else axis for axis in axes]


def reduce_step(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(1, 5))
    if value is None:
        return
    op = fuzz.pick(_REDUCE.split())
    axes = some_axes(fuzz, fuzz.env[value].ndim)
    keep = int(fuzz.chance(0.6))
    if fuzz.opset >= (13 if op == "ReduceSum" else 18):
        inputs = [value, fuzz.ints(*axes)] if axes or fuzz.chance(0.5) else [value]
        fuzz.add(op, inputs, keepdims=keep, **({"noop_with_empty_axes": 1} if fuzz.chance(0.3) else {}))
    else:
        fuzz.add(op, [value], keepdims=keep, **({"axes": axes} if axes else {}))


def arg_step(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(1, 5))
    if value is not None:
        rank = fuzz.env[value].ndim
        fuzz.add(
            fuzz.pick(_ARG.split()), [value], axis=int(fuzz.rng.integers(-rank, rank)), keepdims=int(fuzz.chance(0.5))
        )


def axis_step(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(1, 5))
    if value is None:
        return
    op = fuzz.pick(_AXIS_NODES.split())
    rank = fuzz.env[value].ndim
    axis = int(fuzz.rng.integers(-rank, rank))
    if op == "CumSum":
        fuzz.add(
            op, [value, fuzz.constant(np.array(axis))], exclusive=int(fuzz.chance(0.3)), reverse=int(fuzz.chance(0.3))
        )
    else:
        fuzz.add(op, [value], axis=axis)


def where_step(fuzz: Fuzzer) -> None:
    value = fuzz.value()
    if value is None:
        return
    mask = fuzz.value(kinds="b")
    if mask is None or fuzz.chance(0.4):
        made = fuzz.add(fuzz.pick(["Greater", "Less", "Equal"]), [value, fuzz.operand(value)])
        mask = made[0] if made else fuzz.constant(np.array(fuzz.chance(0.5)))
    pair = [value, fuzz.operand(value)]
    fuzz.add("Where", [mask, *(pair if fuzz.chance(0.5) else pair[::-1])])


def clip_step(fuzz: Fuzzer) -> None:
    value = fuzz.value(kinds="fi")
    for _ in range(fuzz.pick([1, 2])):
        if value is None:
            return
        dtype = fuzz.env[value].dtype
        bounds = [fuzz.constant(fuzz.array(dtype, ())) if fuzz.chance(0.75) else None for _ in range(2)]
        made = fuzz.add("Clip", [value, *bounds])
        value = made[0] if made else None
        if value is not None and fuzz.chance(0.4):
            made = fuzz.add("Relu", [value])
            value = made[0] if made else None


def sigmoid_product_step(fuzz: Fuzzer) -> None:
    value = fuzz.value(kinds="f")
    made = fuzz.add(fuzz.pick(["Sigmoid", "HardSigmoid", "Softplus"]), [value]) if value else None
    if value and made:
        fuzz.add("Mul", [value, made[0]])


def quantize_step(fuzz: Fuzzer) -> None:
    value = fuzz.value(dtype=np.dtype(np.float32))
    if value is None or fuzz.opset < 13:
        return
    zero = fuzz.pick([np.uint8, np.int8])
    scale, point = (
        fuzz.constant(np.float32(fuzz.pick([0.1, 0.5, 1.0]))),
        fuzz.constant(np.array(fuzz.pick([0, 1]), zero)),
    )
    made = fuzz.add("QuantizeLinear", [value, scale, point])
    if made and fuzz.chance(0.3):
        made = fuzz.add("Transpose", made)
    made = made and fuzz.add("DequantizeLinear", [made[0], scale, point])
    if made and fuzz.chance(0.4):
        fuzz.add("QuantizeLinear", [made[0], scale, point])
