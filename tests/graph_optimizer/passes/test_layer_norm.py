"""Layer normalisation in its many spellings."""

from __future__ import annotations

import numpy as np
import pytest

from onnxsmith.graph_optimizer.passes.layer_norm import RecognizeLayerNorm
from recognition import parse, reasons, recognize

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 3, 4)).astype(np.float32) * 3 + 1
FEEDS = {"x": X, "g": RANDOM.standard_normal(4).astype(np.float32), "b": RANDOM.standard_normal(4).astype(np.float32)}
MEAN = "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m)"
NUMBERS = "two = Constant<value_float=2.0>() e = Constant<value_float=1e-3>() one = Constant<value_float=1.0>()"
NUMBERS += " h = Constant<value_float=0.5>() mh = Constant<value_float=-0.5>()"
CORE = f"{MEAN} q = Pow(d, two) v = ReduceMean<axes = [-1]>(q) w = Add(v, e) r = Sqrt(w) n = Div(d, r)"
SCALED = f"{CORE} s = Mul(n, g) y = Add(s, b)"


def layer_norm(body, opset=17, outputs="float[2, 3, 4] y"):
    return parse(
        f"g (float[2, 3, 4] x, float[4] g, float[4] b) => ({outputs}) {{ {NUMBERS} {body} }}",
        opset,
    )


@pytest.mark.parametrize(
    "body",
    [
        SCALED,
        f"{CORE} s = Mul(g, n) y = Add(b, s)",
        f"{MEAN} m2 = ReduceMean<axes = [2]>(x) d2 = Sub(x, m2) q = Mul(d2, d2) v = ReduceMean<axes = [2]>(q)"
        " w = Add(e, v) r = Sqrt(w) i = Reciprocal(r) n = Mul(d, i) s = Mul(n, g) y = Add(s, b)",
        f"{MEAN} q = Mul(d, d) v = ReduceMean<axes = [-1]>(q) w = Add(e, v) r = Sqrt(w) i = Div(one, r)"
        " n = Mul(i, d) s = Mul(n, g) y = Add(s, b)",
        f"{MEAN} q = Mul(d, d) v = ReduceMean<axes = [-1]>(q) w = Add(e, v) r = Pow(w, h)"
        " n = Div(d, r) s = Mul(n, g) y = Add(s, b)",
        f"{MEAN} q = Mul(d, d) v = ReduceMean<axes = [-1]>(q) w = Add(e, v) r = Pow(w, mh)"
        " n = Mul(d, r) s = Mul(n, g) y = Add(s, b)",
    ],
)
def test_spellings(body):
    operators, result = recognize(RecognizeLayerNorm(), layer_norm(body), FEEDS)
    assert operators == ["LayerNormalization"]
    (node,) = [node for node in result.model.to_proto().graph.node if node.op_type == "LayerNormalization"]
    assert {item.name: item.i or round(item.f, 6) for item in node.attribute} == {"axis": -1, "epsilon": 0.001}


def test_axes_as_an_input():
    axes = "a = Constant<value_ints = [-1]>()"
    body = f"{axes} m = ReduceMean(x, a) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, a) w = Add(v, e) r = Sqrt(w)"
    operators, _ = recognize(
        RecognizeLayerNorm(), layer_norm(f"{body} n = Div(d, r) s = Mul(n, g) y = Add(s, b)", opset=18), FEEDS
    )
    assert operators == ["LayerNormalization"]


@pytest.mark.parametrize(
    ("end", "left"),
    [
        ("y = Identity(n)", ["LayerNormalization", "Identity"]),
        ("s = Mul(n, g) y = Identity(s)", ["LayerNormalization", "Identity"]),
        ("y = Add(n, b)", ["LayerNormalization"]),
        ("y = Mul(n, two)", ["LayerNormalization", "Mul"]),
        ("s = Mul(n, n) y = Add(s, b)", ["LayerNormalization", "Mul", "Add"]),
        ("s = Mul(n, g) z = Neg(s) t = Add(s, b) y = Add(t, z)", ["LayerNormalization", "Neg", "Add", "Add"]),
    ],
)
def test_parameters_that_are_missing_or_are_none(end, left):
    assert recognize(RecognizeLayerNorm(), layer_norm(f"{CORE} {end}"), FEEDS)[0] == left


def test_the_last_two_axes_and_a_scale_with_leading_ones():
    model = parse(
        f"""g (float[N, 3, 4] x) => (float[N, 3, 4] y)
        <float[1, 3, 4] g = {{1,2,3,4,5,6,7,8,9,10,11,12}}> {{ {NUMBERS}
            m = ReduceMean<axes = [1, 2]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes = [-1, -2]>(q)
            w = Add(v, e) r = Sqrt(w) n = Div(d, r) y = Mul(n, g) }}""",
        17,
    )
    operators, result = recognize(RecognizeLayerNorm(), model, {"x": X})
    assert operators == ["LayerNormalization"]
    (node,) = [node for node in result.model.to_proto().graph.node if node.op_type == "LayerNormalization"]
    assert {item.name: item.i for item in node.attribute}["axis"] == -2


def test_half_precision_around_float32():
    model = parse(
        f"""g (float16[2, 3, 4] h16, float16[4] g, float16[4] b) => (float16[2, 3, 4] y) {{ {NUMBERS}
            x = Cast<to = 1>(h16) {CORE} c = Cast<to = 10>(n) s = Mul(c, g) y = Add(s, b) }}""",
        17,
    )
    feeds = {"h16": X.astype(np.float16), "g": FEEDS["g"].astype(np.float16), "b": FEEDS["b"].astype(np.float16)}
    assert recognize(RecognizeLayerNorm(), model, feeds, tolerance=2e-3)[0] == ["LayerNormalization"]


def test_casts_that_another_dtype_follows_stay():
    model = parse(
        f"""g (float16[2, 3, 4] h16) => (double[2, 3, 4] y) {{ {NUMBERS}
            x = Cast<to = 1>(h16) {CORE} y = Cast<to = 11>(n) }}""",
        17,
    )
    operators, _ = recognize(RecognizeLayerNorm(), model, {"h16": X.astype(np.float16)})
    assert operators == ["Cast", "LayerNormalization", "Cast"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (SCALED.replace("[-1]", "[1]"), "this is LayerNormalization, but not over the last axes of a value"),
        (
            "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes = [1]>(q) w = Add(v, e)"
            " r = Sqrt(w) n = Div(d, r) y = Mul(n, g)",
            "this is LayerNormalization, but not over the last axes of a value",
        ),
        (f"{SCALED} z = Neg(v)", "this is LayerNormalization, but a value inside it is an output or used elsewhere"),
    ],
)
def test_what_must_stay(body, reason):
    outputs = "float[2, 3, 4] y, float[A, B, C] z" if "z =" in body else "float[2, 3, 4] y"
    operators, result = recognize(RecognizeLayerNorm(), layer_norm(body, outputs=outputs), FEEDS)
    assert "LayerNormalization" not in operators
    assert [text[: len(reason)] for text in reasons(result)] == [reason]


def test_a_size_that_is_not_known_could_be_zero():
    model = parse(f"g (float[2, 3, N] x) => (float[2, 3, N] y) {{ {NUMBERS} {CORE} y = Identity(n) }}", 17)
    operators, result = recognize(RecognizeLayerNorm(), model, {"x": X})
    assert "LayerNormalization" not in operators
    assert "not a known number above 0" in reasons(result)[0]


def test_another_numerator_is_none():
    operators, _ = recognize(
        RecognizeLayerNorm(), layer_norm(CORE.replace("Div(d, r)", "Div(x, r)") + " y = Mul(n, g)"), FEEDS
    )
    assert "LayerNormalization" not in operators


def test_an_old_opset_has_none():
    operators, result = recognize(RecognizeLayerNorm(), layer_norm(SCALED, opset=13), FEEDS)
    assert "LayerNormalization" not in operators
    assert reasons(result) == ["LayerNormalization needs opset 17, the model has 13 (convert with --opset 17)"]


def test_double_is_computed_in_float32_by_the_operator():
    model = parse(
        """g (double[2, 3, 4] x) => (double[2, 3, 4] y) { e = Constant<value = double {0.001}>()
            m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes = [-1]>(q) w = Add(v, e)
            r = Sqrt(w) y = Div(d, r) }""",
        17,
    )
    operators, result = recognize(RecognizeLayerNorm(), model, {"x": X.astype(np.float64)}, tolerance=0)
    assert "LayerNormalization" not in operators
    assert reasons(result) == ["LayerNormalization computes in float32, this in double"]
