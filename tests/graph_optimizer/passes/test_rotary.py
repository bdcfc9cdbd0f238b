"""Rotary embeddings as PyTorch's exporters write them."""

from __future__ import annotations

import numpy as np
import pytest

from onnxsmith.graph_optimizer.passes.rotary import RecognizeRotary
from recognition import parse, reasons, recognize

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 3, 5, 8)).astype(np.float32)
ANGLES = RANDOM.standard_normal((2, 5, 4)).astype(np.float32)
NUMBERS = """
    zero = Constant<value_ints = [0]>() one = Constant<value_ints = [1]>() four = Constant<value_ints = [4]>()
    end = Constant<value_ints = [9223372036854775807]>() last = Constant<value_ints = [3]>()
    scale = Constant<value_float = 1.5>() halves = Constant<value_ints = [4, 4]>()
"""
CACHES = """
    e = Concat<axis = -1>(f, f) c = Cos(e) c2 = Mul(c, scale) s = Sin(e)
    cos = Unsqueeze(c2, one) sin = Unsqueeze(s, one)
"""
ROTATE = "x1 = Slice(x, zero, four, last) x2 = Slice(x, four, end, last) n = Neg(x2) r = Concat<axis = -1>(n, x1)"
SUM = "a = Mul(x, cos) b = Mul(r, sin) y = Add(a, b)"


def rotary(body, opset=23, angles="2, 5, 4", x="2, 3, 5, 8", outputs="float[2, 3, 5, 8] y"):
    return parse(f"g (float[{x}] x, float[{angles}] f) => ({outputs}) {{ {NUMBERS} {body} }}", opset)


def one_rotary(result):
    return sum(node.op_type == "RotaryEmbedding" for node in result.model.to_proto().graph.node)


@pytest.mark.parametrize(
    "body",
    [
        f"{CACHES} {ROTATE} {SUM}",
        f"{CACHES} {ROTATE} a = Mul(cos, x) b = Mul(sin, r) y = Add(b, a)",
        f"{CACHES} x1, x2 = Split<axis = -1>(x, halves) n = Neg(x2) r = Concat<axis = 3>(n, x1) {SUM}",
    ],
)
def test_spellings(body):
    operators, result = recognize(RecognizeRotary(), rotary(body), {"x": X, "f": ANGLES})
    assert one_rotary(result) == 1
    assert not {"Neg", "Add", "Split"} & set(operators)


def test_symbolic_batch_and_sequence():
    model = rotary(f"{CACHES} {ROTATE} {SUM}", angles="B, S, 4", x="B, 3, S, 8", outputs="float[B, 3, S, 8] y")
    assert one_rotary(recognize(RecognizeRotary(), model, {"x": X, "f": ANGLES})[1]) == 1


def test_constant_caches():
    angles = np.tile(ANGLES[:1], 2)
    cos, sin = (", ".join(map(str, function(angles).reshape(-1))) for function in (np.cos, np.sin))
    model = parse(
        f"""g (float[1, 3, 5, 8] x) => (float[1, 3, 5, 8] y)
        <float[1, 1, 5, 8] cos = {{{cos}}}, float[1, 1, 5, 8] sin = {{{sin}}}> {{ {NUMBERS} {ROTATE} {SUM} }}""",
        23,
    )
    assert recognize(RecognizeRotary(), model, {"x": X[:1]})[0] == ["RotaryEmbedding"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            ("Concat<axis = -1>(f, f)", "Concat<axis = -1>(f, g2)"),
            "the two halves of the cosines or sines are not known",
        ),
        (("angles", "1, 5, 4"), "RotaryEmbedding takes cosines for each item of the batch; these may broadcast"),
        (("angles", "2, 1, 4"), "the cosines or sines are not known to have a row for each position"),
    ],
)
def test_why_not(change, reason):
    if change[0] == "angles":
        model = rotary(f"{CACHES} {ROTATE} {SUM}", angles=change[1])
        angles = ANGLES[: int(change[1][0]), : int(change[1][3])]
    else:
        model, angles = rotary(f"g2 = Neg(f) {CACHES} {ROTATE} {SUM}".replace(*change)), ANGLES
    _, result = recognize(RecognizeRotary(), model, {"x": X, "f": angles})
    assert result.changes == 0
    assert reasons(result)[0].startswith(reason)


@pytest.mark.parametrize(
    "change",
    [
        ("Concat<axis = -1>(n, x1)", "Concat<axis = -1>(x1, n)"),
        ("x2 = Slice(x, four, end, last)", "x2 = Slice(x, zero, four, last)"),
        ("n = Neg(x2)", "n = Neg(x1)"),
    ],
)
def test_another_rotation_is_none(change):
    _, result = recognize(RecognizeRotary(), rotary(f"{CACHES} {ROTATE} {SUM}".replace(*change)), {"x": X, "f": ANGLES})
    assert (result.changes, result.notes) == (0, ())


def test_an_old_opset_has_none_but_onnx_runtime_has():
    body = f"{CACHES} {ROTATE} {SUM}"
    _, result = recognize(RecognizeRotary(), rotary(body, opset=18), {"x": X, "f": ANGLES})
    assert reasons(result) == ["RotaryEmbedding needs opset 23, the model has 18 (convert with --opset 23)"]
    contrib = RecognizeRotary(domain="onnxruntime")
    model = rotary(body, opset=18, angles="1, 5, 4")
    assert one_rotary(recognize(contrib, model, {"x": X, "f": ANGLES[:1]})[1]) == 1
    _, result = recognize(contrib, rotary(body, opset=18), {"x": X, "f": ANGLES})
    assert reasons(result) == ["RotaryEmbedding needs opset 23, the model has 18 (convert with --opset 23)"]
