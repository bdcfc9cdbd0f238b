"""Activations in their many spellings."""

from __future__ import annotations

import numpy as np
import pytest

from onnxsmith.graph_optimizer.passes.activations import RecognizeActivations
from recognition import parse, reasons, recognize

X = np.concatenate([np.linspace(-6, 6, 19), [0.0, -0.0, np.nan, np.inf, 100.0]]).astype(np.float32).reshape(2, 12)
FINITE = np.where(np.isfinite(X), X, 0.5).astype(np.float32)
NUMBERS = """
    zero = Constant<value_float=0.0>() one = Constant<value_float=1.0>() three = Constant<value_float=3.0>()
    six = Constant<value_float=6.0>() sixth = Constant<value_float=0.16666667>() slope = Constant<value_float=0.1>()
    half = Constant<value_float=0.5>() steep = Constant<value_float=1.5>() last = Constant<value_ints=[-1]>()
"""
RELU6 = "a = Add(x, three) c = Clip(a, zero, six)"


def activation(body, opset=18, outputs="float[2, 12] y"):
    return parse(f"g (float[2, 12] x) => ({outputs}) {{ {NUMBERS} {body} }}", opset)


@pytest.mark.parametrize(
    "body",
    [
        f"{RELU6} m = Mul(x, c) y = Div(m, six)",
        f"{RELU6} m = Mul(c, x) y = Mul(sixth, m)",
        f"{RELU6} d = Div(c, six) y = Mul(x, d)",
        f"{RELU6} d = Mul(c, sixth) y = Mul(d, x)",
        f"{RELU6} d = Div(x, six) y = Mul(d, c)",
        "a = Add(three, x) b = Max(a, zero) c = Min(b, six) m = Mul(x, c) y = Div(m, six)",
        "a = Add(three, x) b = Min(a, six) c = Max(b, zero) m = Mul(x, c) y = Div(m, six)",
        "a = Add(three, x) b = Relu(a) c = Min(b, six) m = Mul(x, c) y = Div(m, six)",
        "c = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(x, c)",
    ],
)
def test_hard_swish(body):
    assert recognize(RecognizeActivations(), activation(body), {"x": X})[0] == ["HardSwish"]


@pytest.mark.parametrize(
    ("body", "alpha", "beta"),
    [
        (f"{RELU6} y = Div(c, six)", 1 / 6, 0.5),
        ("m = Mul(x, slope) a = Add(m, half) y = Clip(a, zero, one)", 0.1, 0.5),
        ("m = Mul(slope, x) a = Add(half, m) y = Clip(a, zero, one)", 0.1, 0.5),
        ("a = Add(half, x) y = Clip(a, zero, one)", 1.0, 0.5),
    ],
)
def test_hard_sigmoid(body, alpha, beta):
    operators, result = recognize(RecognizeActivations(), activation(body), {"x": X})
    assert operators == ["HardSigmoid"]
    (node,) = [node for node in result.model.to_proto().graph.node if node.op_type == "HardSigmoid"]
    assert {item.name: item.f for item in node.attribute} == pytest.approx({"alpha": alpha, "beta": beta})


@pytest.mark.parametrize(
    ("body", "op_type"),
    [
        ("s = Softplus(x) t = Tanh(s) y = Mul(x, t)", "Mish"),
        ("s = Softplus(x) t = Tanh(s) y = Mul(t, x)", "Mish"),
        ("m = Mul(x, slope) y = Max(x, m)", "LeakyRelu"),
        ("m = Mul(slope, x) y = Max(m, x)", "LeakyRelu"),
    ],
)
def test_others_element_by_element(body, op_type):
    assert recognize(RecognizeActivations(), activation(body), {"x": X})[0] == [op_type]


@pytest.mark.parametrize(
    ("body", "op_type"),
    [
        ("m = ReduceMax(x, last) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, last) y = Div(e, s)", "Softmax"),
        (
            "m = ReduceMax(x, last) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, last) l = Log(s) y = Sub(d, l)",
            "LogSoftmax",
        ),
    ],
)
@pytest.mark.parametrize("axis", [-1, 0])
def test_softmax(body, op_type, axis):
    body = body.replace("last", "axis")
    model = activation(f"axis = Constant<value_ints = [{axis}]>() {body}")
    operators, result = recognize(RecognizeActivations(), model, {"x": FINITE})
    assert operators == [op_type]
    (node,) = [node for node in result.model.to_proto().graph.node if node.op_type == op_type]
    assert node.attribute[0].i == axis % 2


@pytest.mark.parametrize(
    "body",
    [
        f"{RELU6} m = Mul(x, c) y = Div(m, three)",
        "a = Add(x, three) b = Max(a, zero, x) c = Min(b, six) m = Mul(x, c) y = Div(m, six)",
        "m = Mul(x, steep) y = Max(x, m)",
        "m = Mul(x, slope) y = Max(x, m, half)",
        "m = ReduceMax<keepdims = 0>(x, last) k = Constant<value_ints = [2, 1]>() r = Reshape(m, k) d = Sub(x, r)"
        " e = Exp(d) s = ReduceSum(e, last) y = Div(e, s)",
        "m = ReduceMax(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, last) y = Div(e, s)",
    ],
)
def test_what_is_none_of_these_stays(body):
    _, result = recognize(RecognizeActivations(), activation(body), {"x": FINITE})
    assert result.changes == 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("s = Softmax(x) y = Log(s)", "where a probability rounds to zero, this gives -inf and LogSoftmax a number"),
        (
            "e = Exp(x) a = Add(one, e) y = Log(a)",
            "where the exponential overflows, this gives inf and Softplus a number",
        ),
        (
            "s = Softplus(x) t = Tanh(s) y = Mul(x, t)",
            "Mish needs opset 18, the model has 17 (convert with --opset 18)",
        ),
    ],
)
def test_why_not(body, reason):
    model = activation(body, opset=17)
    _, result = recognize(RecognizeActivations(), model, {"x": FINITE})
    assert (result.changes, reasons(result)) == (0, [reason])


@pytest.mark.parametrize("body", ["s = Sigmoid(x) y = Mul(x, s)", "m = Mul(x, steep) s = Sigmoid(m) y = Mul(s, x)"])
def test_silu_only_on_demand(body):
    assert recognize(RecognizeActivations(), activation(body, opset=24), {"x": FINITE})[1].changes == 0
    assert recognize(RecognizeActivations(swish=True), activation(body, opset=24), {"x": FINITE})[0] == ["Swish"]
    contrib = RecognizeActivations(domain="onnxruntime")
    assert recognize(contrib, activation(body), {"x": FINITE})[0] == ["QuickGelu"]


def test_what_is_used_elsewhere_stays():
    model = activation(f"{RELU6} m = Mul(x, c) y = Div(m, six)", outputs="float[2, 12] y, float[2, 12] c")
    _, result = recognize(RecognizeActivations(), model, {"x": X})
    assert result.changes == 0
    assert reasons(result) == ["this is HardSwish, but a value inside it is an output or used elsewhere as well"]
