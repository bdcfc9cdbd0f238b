"""GELU in its many spellings."""

from __future__ import annotations

import numpy as np
import pytest

from onnxsmith.graph_optimizer.passes.gelu import RecognizeGelu
from onnxsmith.model import Model
from recognition import parse, reasons, recognize

X = np.concatenate([np.linspace(-6, 6, 21), [0.0, -0.0, np.nan, np.inf]]).astype(np.float32)
NUMBERS = """
    half = Constant<value_float=0.5>() one = Constant<value_float=1.0>() two = Constant<value_float=2.0>()
    three = Constant<value_float=3.0>() root = Constant<value_float=1.4142135>()
    inverse = Constant<value_float=0.70710677>() small = Constant<value_float=0.044715>()
    outer = Constant<value_float=0.7978845608>()
"""
ERF = "d = Div(x, root) e = Erf(d) s = Add(e, one)"
TANH = "x3 = Pow(x, three) a = Mul(x3, small) b = Add(x, a) c = Mul(b, outer) t = Tanh(c) s = Add(t, one)"


def gelu(body, opset=20, outputs="float[N] y", shape="N"):
    return parse(f"g (float[{shape}] x) => ({outputs}) {{ {NUMBERS} {body} }}", opset)


@pytest.mark.parametrize(
    "body",
    [
        f"{ERF} p = Mul(x, s) y = Mul(p, half)",
        f"{ERF} p = Mul(s, x) y = Mul(half, p)",
        f"{ERF} p = Mul(s, x) y = Div(p, two)",
        f"{ERF} h = Mul(x, half) y = Mul(s, h)",
        f"{ERF} h = Div(x, two) y = Mul(h, s)",
        f"{ERF} h = Mul(s, half) y = Mul(x, h)",
        "d = Mul(x, inverse) e = Erf(d) h = Mul(e, half) s = Add(half, h) y = Mul(x, s)",
        "d = Mul(inverse, x) e = Erf(d) s = Add(one, e) p = Mul(x, s) y = Mul(p, half)",
    ],
)
def test_by_erf(body):
    assert recognize(RecognizeGelu(), gelu(body), {"x": X})[0] == ["Gelu"]


@pytest.mark.parametrize(
    "body",
    [
        f"{TANH} h = Mul(x, half) y = Mul(h, s)",
        f"{TANH} p = Mul(x, s) y = Mul(half, p)",
        "q = Mul(x, x) x3 = Mul(q, x) a = Mul(small, x3) b = Add(a, x) c = Mul(outer, b) t = Tanh(c) s = Add(t, one)"
        " h = Mul(x, half) y = Mul(h, s)",
        "q = Mul(x, x) r = Mul(q, small) f = Add(r, one) m = Mul(x, outer) c = Mul(m, f) t = Tanh(c) s = Add(t, one)"
        " p = Mul(x, s) y = Mul(p, half)",
    ],
)
def test_by_tanh(body):
    finite = X[np.isfinite(X)]
    model = gelu(body)
    operators, result = recognize(RecognizeGelu(), model, {"x": finite})
    assert operators == ["Gelu"]
    (node,) = [node for node in result.model.to_proto().graph.node if node.op_type == "Gelu"]
    assert node.attribute[0].s == b"tanh"


def test_an_old_opset_has_none_and_the_reason_says_what_to_do():
    operators, result = recognize(RecognizeGelu(), gelu(f"{ERF} p = Mul(x, s) y = Mul(p, half)", opset=17), {"x": X})
    assert "Gelu" not in operators
    assert reasons(result) == ["Gelu needs opset 20, the model has 17 (convert with --opset 20)"]


@pytest.mark.parametrize(
    ("body", "op_type"),
    [(f"{ERF} p = Mul(x, s) y = Mul(p, half)", "Gelu"), (f"{TANH} h = Mul(x, half) y = Mul(h, s)", "FastGelu")],
)
def test_onnx_runtime_has_its_own(body, op_type):
    finite = X[np.isfinite(X)]
    operators, result = recognize(RecognizeGelu(domain="onnxruntime"), gelu(body, opset=17), {"x": finite})
    assert operators == [op_type]
    assert {item.domain for item in result.model.to_proto().opset_import} == {"", "com.microsoft"}


def test_other_numbers_are_no_gelu():
    for body in (
        "d = Div(x, two) e = Erf(d) s = Add(e, one) p = Mul(x, s) y = Mul(p, half)",
        f"{ERF} p = Mul(x, s) y = Mul(p, one)",
        f"{ERF} p = Mul(d, s) y = Mul(p, half)",
    ):
        assert "Gelu" not in recognize(RecognizeGelu(), gelu(body), {"x": X})[0]


def test_a_constant_that_broadcasts_is_no_gelu():
    model = parse(
        f"g (float[N] x) => (float[1, N] y) {{ {NUMBERS} wide = Constant<value = float[1, 1] {{0.5}}>()"
        f" {ERF} p = Mul(x, s) y = Mul(p, wide) }}",
        20,
    )
    assert "Gelu" not in recognize(RecognizeGelu(), model, {"x": X})[0]


@pytest.mark.parametrize("outputs", ["float[N] y, float[N] e", "float[N] y, float[N] z"])
def test_what_is_used_elsewhere_stays(outputs):
    model = gelu(f"{ERF} z = Neg(s) p = Mul(x, s) y = Mul(p, half)", outputs=outputs)
    operators, result = recognize(RecognizeGelu(), model, {"x": X})
    assert "Gelu" not in operators
    assert reasons(result) == ["this is a GELU, but a value inside it is an output or used elsewhere as well"]


def test_a_constant_that_a_caller_can_override_is_none():
    model = parse(
        f"g (float[N] x, float h = {{0.5}}) => (float[N] y) {{ {NUMBERS} {ERF} p = Mul(x, s) y = Mul(p, h) }}", 20
    )
    assert "Gelu" not in recognize(RecognizeGelu(), model, {"x": X})[0]


@pytest.mark.parametrize(("number", "changes"), [(0.7071067811865476, 1), (0.7071, 0)])
def test_a_number_must_be_exact_enough(number, changes):
    model = parse(
        f"""g (double[N] x) => (double[N] y) {{
            r = Constant<value = double {{{number}}}>() o = Constant<value = double {{1.0}}>()
            h = Constant<value = double {{0.5}}>()
            d = Mul(x, r) e = Erf(d) s = Add(e, o) p = Mul(x, s) y = Mul(p, h)
        }}""",
        20,
    )
    assert RecognizeGelu().run(Model.from_proto(model)).changes == changes
