"""Attention as PyTorch's exporters write it."""

from __future__ import annotations

import numpy as np
import pytest

from onnxsmith.graph_optimizer.passes.attention import RecognizeAttention
from recognition import parse, reasons, recognize

RANDOM = np.random.default_rng(0)
Q, K, V = (RANDOM.standard_normal((2, 4, length, 8)).astype(np.float32) for length in (5, 7, 7))
MASK = np.where(RANDOM.random((2, 1, 5, 7)) < 0.6, 0, -1e4).astype(np.float32)
ALLOWED = np.concatenate([np.zeros((2, 1, 1, 7), bool), RANDOM.random((2, 1, 4, 7)) < 0.6], axis=2)
NUMBERS = """
    root = Constant<value_float=2.828427>() inverse = Constant<value_float=0.35355338>()
    fourth = Constant<value_float=0.5946035>() zero = Constant<value_float=0.0>() minus = Constant<value_float=-1.0>()
    low = Constant<value_float=-10000.0>() never = Constant<value_float=-inf>()
"""
KEYS = "kt = Transpose<perm = [0, 1, 3, 2]>(k)"
INPUTS = "float[2, 4, 5, 8] q, float[2, 4, 7, 8] k, float[2, 4, 7, 8] v"
FEEDS = {"q": Q, "k": K, "v": V}
PRODUCT = f"{KEYS} p = MatMul(q, kt)"
END = "w = Softmax<axis = -1>(t) y = MatMul(w, v)"
GUARD = "w0 = Softmax<axis = -1>(t) i = IsNaN(w0) w = Where(i, zero, w0) y = MatMul(w, v)"


def attention(body, inputs=INPUTS, opset=23, outputs="float[2, 4, 5, 8] y"):
    return parse(f"g ({inputs}) => ({outputs}) {{ {NUMBERS} {body} }}", opset)


def scale_of(result):
    (node,) = [node for node in result.model.to_proto().graph.node if node.op_type == "Attention"]
    return next(item.f for item in node.attribute if item.name == "scale")


@pytest.mark.parametrize(
    ("body", "scale"),
    [
        (f"{PRODUCT} t = Div(p, root) {END}", 1 / 2.828427),
        (f"{PRODUCT} t = Mul(inverse, p) {END}", 0.35355338),
        (f"{PRODUCT} t = Identity(p) {END}", 1.0),
        (f"a = Mul(q, inverse) {KEYS} t = MatMul(a, kt) {END}", 0.35355338),
        (f"a = Mul(q, fourth) {KEYS} b = Mul(kt, fourth) t = MatMul(a, b) {END}", 0.35355338),
        (
            f"a = Mul(q, fourth) b = Mul(k, fourth) kt = Transpose<perm = [0, 1, 3, 2]>(b) t = MatMul(a, kt) {END}",
            0.353553,
        ),
        (
            "s = Constant<value_ints = [-1, 7, 8]>() u = Constant<value_ints = [2, 4, 8, 7]>() k3 = Reshape(k, s)"
            f" k3t = Transpose<perm = [0, 2, 1]>(k3) kt = Reshape(k3t, u) t = MatMul(q, kt) {END}",
            1.0,
        ),
    ],
)
def test_spellings(body, scale):
    operators, result = recognize(RecognizeAttention(), attention(body), FEEDS)
    assert operators == ["Attention"]
    assert scale_of(result) == pytest.approx(scale)


def test_keys_that_are_transposed_with_their_heads():
    model = attention(
        f"kt = Transpose<perm = [0, 2, 3, 1]>(k) t = MatMul(q, kt) {END}",
        inputs=INPUTS.replace("[2, 4, 7, 8] k", "[2, 7, 4, 8] k"),
    )
    operators, _ = recognize(RecognizeAttention(), model, {**FEEDS, "k": K.transpose(0, 2, 1, 3).copy()})
    assert operators == ["Transpose", "Attention"]


def test_a_finite_mask():
    body = f"{PRODUCT} d = Div(p, root) m = Where(c, zero, low) t = Add(d, m) {END}"
    model = attention(body, inputs=f"{INPUTS}, bool[2, 1, 5, 7] c")
    operators, _ = recognize(RecognizeAttention(), model, {**FEEDS, "c": ALLOWED})
    assert operators == ["Where", "Attention"]


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (f"{PRODUCT} d = Div(p, root) m = Where(c, zero, never) t = Add(m, d) {GUARD}", ["Where", "Attention"]),
        (f"{PRODUCT} d = Div(p, root) t = Where(c, d, never) {GUARD}", ["Attention"]),
    ],
)
def test_rows_that_are_masked_as_a_whole_become_zero(body, left):
    model = attention(body, inputs=f"{INPUTS}, bool[2, 1, 5, 7] c")
    operators, _ = recognize(RecognizeAttention(assume_ordinary=True), model, {**FEEDS, "c": ALLOWED})
    assert operators == left
    _, result = recognize(
        RecognizeAttention(), attention(body, inputs=f"{INPUTS}, bool[2, 1, 5, 7] c"), {**FEEDS, "c": ALLOWED}
    )
    assert result.changes == 0
    assert reasons(result)[0].startswith("a row with NaN becomes zero here and NaN in Attention")


def test_a_mask_that_is_not_known_to_be_finite():
    body, inputs = f"{PRODUCT} t = Add(p, m) {END}", f"{INPUTS}, float[2, 1, 5, 7] m"
    _, result = recognize(RecognizeAttention(), attention(body, inputs), {**FEEDS, "m": MASK})
    assert reasons(result)[0].startswith("a row that is masked as a whole becomes NaN here and zero in Attention")
    given = RecognizeAttention(assume_ordinary=True)
    assert recognize(given, attention(body, inputs), {**FEEDS, "m": MASK})[0] == ["Attention"]


def test_groups_of_queries():
    repeat = "{0}u = Unsqueeze({0}, two) {0}e = Expand({0}u, wide) {0}r = Reshape({0}e, heads)"
    body = (
        "two = Constant<value_ints = [2]>() wide = Constant<value_ints = [2, 2, 2, 7, 8]>()"
        " heads = Constant<value_ints = [2, 4, 7, 8]>()"
        f" {repeat.format('k')} {repeat.format('v')} kt = Transpose<perm = [0, 1, 3, 2]>(kr) p = MatMul(q, kt)"
        " t = Div(p, root) w = Softmax<axis = -1>(t) y = MatMul(w, vr)"
    )
    inputs = "float[2, 4, 5, 8] q, float[2, 2, 7, 8] k, float[2, 2, 7, 8] v"
    feeds = {"q": Q, "k": K[:, :2].copy(), "v": V[:, 2:].copy()}
    assert recognize(RecognizeAttention(), attention(body, inputs), feeds)[0] == ["Attention"]


def test_a_dimension_that_may_be_zero():
    inputs = "float[B, 4, S, 8] q, float[B, 4, T, 8] k, float[B, 4, T, 8] v"
    body = f"{PRODUCT} t = Div(p, root) {END}"
    model = attention(body, inputs, outputs="float[B, 4, S, 8] y")
    _, result = recognize(RecognizeAttention(), model, {**FEEDS, "q": Q[:, :, :0]})
    assert "a dimension may be 0" in reasons(result)[0]
    model = attention(body, inputs, outputs="float[B, 4, S, 8] y")
    assert recognize(RecognizeAttention(assume_ordinary=True), model, FEEDS)[0] == ["Attention"]


@pytest.mark.parametrize(
    ("body", "inputs", "reason"),
    [
        (f"{PRODUCT} t = Mul(p, minus) {END}", INPUTS, "Attention takes a positive scale, not -1.0"),
        (f"{PRODUCT} t = Add(p, m) {END}", f"{INPUTS}, float[7] m", "Attention takes a mask of rank 2 to 4"),
        (
            f"{PRODUCT} t = Add(p, m) {END}",
            f"{INPUTS}, float[2, 1, 1, 7] m",
            "ONNX Runtime's Attention takes a mask that",
        ),
        (
            f"{PRODUCT} t = Div(p, root) {END}",
            INPUTS.replace("[2, 4, 7, 8] v", "[1, 4, 7, 8] v"),
            "Attention takes queries",
        ),
        (
            f"t = MatMul(q, k) {END}",
            INPUTS.replace("[2, 4, 7, 8] k", "[2, 4, 8, 7] k"),
            "this is an attention, but its keys are not transposed here",
        ),
    ],
)
def test_why_not(body, inputs, reason):
    given = dict(FEEDS)
    given["v"] = V[:1] if "[1, 4, 7, 8] v" in inputs else V
    given["k"] = K.transpose(0, 1, 3, 2).copy() if "[2, 4, 8, 7] k" in inputs else K
    if " m" in inputs:
        given["m"] = MASK[0, 0, 0] if "[7] m" in inputs else MASK[:, :, :1]
    _, result = recognize(RecognizeAttention(assume_ordinary=True), attention(body, inputs), given)
    assert result.changes == 0
    assert [text[: len(reason)] for text in reasons(result)] == [reason]


def test_scores_that_are_used_elsewhere_stay():
    model = attention(f"{PRODUCT} t = Div(p, root) {END}", outputs="float[2, 4, 5, 8] y, float[2, 4, 5, 7] w")
    _, result = recognize(RecognizeAttention(), model, FEEDS)
    assert reasons(result) == ["this is an attention, but a value inside it is an output or used elsewhere as well"]


def test_softmax_over_another_axis_is_none():
    model = attention(f"{PRODUCT} t = Div(p, root) w = Softmax<axis = 2>(t) y = MatMul(w, v)")
    _, result = recognize(RecognizeAttention(), model, FEEDS)
    assert (result.changes, result.notes) == (0, ())


def test_an_old_opset_has_none():
    _, result = recognize(RecognizeAttention(), attention(f"{PRODUCT} t = Div(p, root) {END}", opset=17), FEEDS)
    assert reasons(result) == ["Attention needs opset 23, the model has 17 (convert with --opset 23)"]
