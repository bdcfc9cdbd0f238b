"""RMS normalisation in its many spellings."""

from __future__ import annotations

import numpy as np
import pytest

from onnxsmith.graph_optimizer.passes.rms_norm import RecognizeRmsNorm
from recognition import parse, reasons, recognize

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 3, 4)).astype(np.float32) * 3 + 1
FEEDS = {"x": X, "g": RANDOM.standard_normal(4).astype(np.float32)}
NUMBERS = "two = Constant<value_float=2.0>() e = Constant<value_float=1e-3>() one = Constant<value_float=1.0>()"
NUMBERS += " mh = Constant<value_float=-0.5>() a = Constant<value_ints = [-1]>()"
MEAN = "q = Pow(x, two) v = ReduceMean(q, a) w = Add(v, e)"
CORE = f"{MEAN} r = Sqrt(w) n = Div(x, r)"


def rms_norm(body, opset=23, outputs="float[2, 3, 4] y"):
    return parse(f"g (float[2, 3, 4] x, float[4] g) => ({outputs}) {{ {NUMBERS} {body} }}", opset)


@pytest.mark.parametrize(
    "body",
    [
        f"{CORE} y = Mul(n, g)",
        f"{MEAN} r = Sqrt(w) i = Reciprocal(r) n = Mul(x, i) y = Mul(g, n)",
        f"{MEAN} r = Sqrt(w) i = Div(one, r) n = Mul(i, x) y = Mul(g, n)",
        f"{MEAN} r = Pow(w, mh) n = Mul(x, r) y = Mul(g, n)",
        "q = Mul(x, x) v = ReduceMean(q, a) w = Add(e, v) r = Sqrt(w) n = Div(x, r) y = Mul(n, g)",
        f"{CORE} y = Identity(n)",
    ],
)
def test_spellings(body):
    operators, result = recognize(RecognizeRmsNorm(), rms_norm(body), FEEDS)
    assert [name for name in operators if name != "Identity"] == ["RMSNormalization"]
    (node,) = [node for node in result.model.to_proto().graph.node if node.op_type == "RMSNormalization"]
    assert {item.name: item.i or round(item.f, 6) for item in node.attribute} == {"axis": -1, "epsilon": 0.001}


def test_half_precision_around_float32():
    model = parse(
        f"""g (float16[2, 3, 4] h, float16[4] g) => (float16[2, 3, 4] y) {{ {NUMBERS}
            x = Cast<to = 1>(h) {CORE} c = Cast<to = 10>(n) y = Mul(g, c) }}""",
        23,
    )
    feeds = {"h": X.astype(np.float16), "g": FEEDS["g"].astype(np.float16)}
    assert recognize(RecognizeRmsNorm(), model, feeds, tolerance=2e-3)[0] == ["RMSNormalization"]


def test_a_scale_in_float32_goes_before_the_cast():
    model = parse(
        f"""g (float16[2, 3, 4] h, float[4] g) => (float16[2, 3, 4] y) {{ {NUMBERS}
            x = Cast<to = 1>(h) {CORE} c = Mul(g, n) y = Cast<to = 10>(c) }}""",
        23,
    )
    feeds = {"h": X.astype(np.float16), "g": FEEDS["g"]}
    assert recognize(RecognizeRmsNorm(), model, feeds, tolerance=2e-3)[0] == ["Cast", "RMSNormalization", "Cast"]


@pytest.mark.parametrize("body", [f"{CORE} z = Neg(r) y = Mul(n, g)", f"{CORE} z = Identity(q) y = Mul(n, g)"])
def test_what_is_used_elsewhere_stays(body):
    operators, result = recognize(
        RecognizeRmsNorm(), rms_norm(body, outputs="float[2, 3, 4] y, float[A, B, C] z"), FEEDS
    )
    assert "RMSNormalization" not in operators
    assert "used elsewhere" in reasons(result)[0]


def test_other_axes_are_none():
    operators, _ = recognize(
        RecognizeRmsNorm(),
        rms_norm(
            f"{CORE} y = Mul(n, g)".replace("q, a", "q, one_axis").replace(
                "q = Pow", "one_axis = Constant<value_ints = [1]>() q = Pow"
            )
        ),
        FEEDS,
    )
    assert "RMSNormalization" not in operators


def test_an_old_opset_has_none():
    operators, result = recognize(RecognizeRmsNorm(), rms_norm(f"{CORE} y = Mul(n, g)", opset=18), FEEDS)
    assert "RMSNormalization" not in operators
    assert reasons(result) == ["RMSNormalization needs opset 23, the model has 18 (convert with --opset 23)"]
