import numpy as np
import pytest
from weights_helpers import fold, norm, some

PASS = "fold-batch-norm"
CONV = (
    "g (float[N, 4, 6, 6] x) => (float[N, M, H, W] y) { c = Conv <%s> (x, w%s) y = BatchNormalization (c, s, o, m, v) }"
)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("attributes", "group"), [("group = 1", 1), ("group = 2, pads = [1, 1, 1, 1]", 2), ("group = 4", 4)]
)
def test_conv(bias, attributes, group):
    constants = {"w": some(8, 4 // group, 3, 3), **norm(8), **({"b": some(8)} if bias else {})}
    folded = fold(PASS, CONV % (attributes, ", b" if bias else ""), constants)
    assert folded.left == ["Conv"]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("group", [1, 2, 4])
def test_conv_transpose(bias, group):
    text = CONV.replace("Conv", "ConvTranspose") % (f"group = {group}, strides = [2, 2]", ", b" if bias else "")
    constants = {"w": some(4, 3, 3, 3), **norm(3 * group), **({"b": some(3 * group)} if bias else {})}
    assert fold(PASS, text, constants).left == ["ConvTranspose"]


@pytest.mark.parametrize("c", [None, (), (1,), (5,), (1, 5), (3, 5)])
@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(c, transposed):
    attributes = f"alpha = 0.5, beta = 3.0, transB = {transposed}"
    text = (
        f"g (float[3, 4] x) => (float[3, 5] y) {{ c = Gemm <{attributes}> (x, w{'' if c is None else ', b'})"
        " y = BatchNormalization (c, s, o, m, v) }"
    )
    constants = {"w": some(*((5, 4) if transposed else (4, 5))), **norm(5)}
    if c is not None:
        constants["b"] = some(*c)
    assert fold(PASS, text, constants).left == ["Gemm"]


def test_gemm_whose_c_varies_by_row_only():
    text = "g (float[3, 4] x) => (float[3, 5] y) { c = Gemm (x, w, b) y = BatchNormalization (c, s, o, m, v) }"
    folded = fold(PASS, text, {"w": some(4, 5), "b": some(3, 1), **norm(5)})
    assert folded.left == ["Gemm", "BatchNormalization"]
    assert "would grow" in folded.reasons


def test_matmul():
    text = "g (float[N, 4] x) => (float[N, 5] y) { c = MatMul (x, w) y = BatchNormalization (c, s, o, m, v) }"
    assert fold(PASS, text, {"w": some(4, 5), **norm(5)}).left == ["Gemm"]


def test_matmul_and_add():
    text = (
        "g (float[N, 4] x) => (float[N, 5] y)"
        "{ c = MatMul (x, w) d = Add (b, c) y = BatchNormalization <epsilon = 0.1> (d, s, o, m, v) }"
    )
    assert fold(PASS, text, {"w": some(4, 5), "b": some(1, 5), **norm(5)}).left == ["MatMul", "Add"]


def test_matmul_of_rank_3_has_other_channels():
    text = "g (float[N, 5, 4] x) => (float[N, 5, 5] y) { c = MatMul (x, w) y = BatchNormalization (c, s, o, m, v) }"
    folded = fold(PASS, text, {"w": some(4, 5), **norm(5)})
    assert folded.left == ["MatMul", "BatchNormalization"]
    assert "not on axis 1" in folded.reasons


def test_float16():
    text = (CONV % ("group = 1", "")).replace("float[", "float16[")
    assert fold(PASS, text, {"w": some(8, 4, 3, 3, dtype=np.float16), **norm(8, np.float16)}).left == ["Conv"]


def test_double():
    text = "g (double[N, 4] x) => (double[N, 5] y) { c = Gemm (x, w) y = BatchNormalization (c, s, o, m, v) }"
    assert fold(PASS, text, {"w": some(4, 5, dtype=np.float64), **norm(5, np.float64)}).left == ["Gemm"]


@pytest.mark.parametrize("after", ["Conv (n, w)", "Conv <group = 2> (n, w, b)", 'Conv <auto_pad = "VALID"> (n, w)'])
def test_before_a_conv_without_padding(after):
    text = f"g (float[N, 4, 6, 6] x) => (float[N, 6, 4, 4] y) {{ n = BatchNormalization (x, s, o, m, v) y = {after} }}"
    constants = {"w": some(6, 2 if "group" in after else 4, 3, 3), "b": some(6), **norm(4)}
    assert fold(PASS, text, constants).left == ["Conv"]


def test_before_a_conv_with_padding():
    text = (
        "g (float[N, 4, 6, 6] x) => (float[N, 6, 6, 6] y)"
        "{ n = BatchNormalization (x, s, o, m, v) y = Conv <pads = [1, 1, 1, 1]> (n, w) }"
    )
    folded = fold(PASS, text, {"w": some(6, 4, 3, 3), **norm(4)})
    assert folded.left == ["BatchNormalization", "Conv"]
    assert "pads with zeros" in folded.reasons


@pytest.mark.parametrize(
    ("after", "left"),
    [
        ("MatMul (n, w)", ["Gemm"]),
        ("Gemm <alpha = 0.5, beta = 2.0> (n, w, b)", ["Gemm"]),
        ("Gemm <transB = 1, alpha = 0.5> (n, t)", ["Gemm"]),
    ],
)
def test_before_a_product(after, left):
    text = f"g (float[N, 4] x) => (float[N, 5] y) {{ n = BatchNormalization (x, s, o, m, v) y = {after} }}"
    constants = {"w": some(4, 5), "t": some(5, 4), "b": some(5), **norm(4)}
    assert fold(PASS, text, constants).left == left


def test_alone():
    text = "g (float[N, 4, 6] x) => (float[N, 4, 6] y) { n = Relu (x) y = BatchNormalization (n, s, o, m, v) }"
    folded = fold(PASS, text, norm(4))
    assert folded.left == ["Relu", "BatchNormalization"]
    assert not folded.reasons


def test_training_mode():
    text = (
        "g (float[N, 4, 6, 6] x) => (float[N, 8, 4, 4] y)"
        "{ c = Conv (x, w) y, a, b = BatchNormalization <training_mode = 1> (c, s, o, m, v) }"
    )
    folded = fold(PASS, text, {"w": some(8, 4, 3, 3), **norm(8)})
    assert folded.left == ["Conv", "BatchNormalization"]
    assert "training mode" in folded.reasons


def test_output_in_the_middle():
    text = (
        "g (float[N, 4, 6, 6] x) => (float[N, 8, 4, 4] c, float[N, 8, 4, 4] y)"
        "{ c = Conv (x, w) y = BatchNormalization (c, s, o, m, v) }"
    )
    folded = fold(PASS, text, {"w": some(8, 4, 3, 3), **norm(8)})
    assert folded.left == ["Conv", "BatchNormalization"]
    assert "used elsewhere" in folded.reasons


@pytest.mark.parametrize(("channels", "left"), [(4, 3), (40, 4)])
def test_shared_weights_are_copied_only_where_they_are_small(channels, left):
    text = (
        f"g (float[N, {channels}, 6, 6] x) => (float[N, 8, 6, 6] y) {{ c = Conv (x, w) d = Conv (x, w)"
        " e = BatchNormalization (c, s, o, m, v) y = Add (e, d) }"
    )
    folded = fold(PASS, text, {"w": some(8, channels, 1, 1), **norm(8)})
    assert len(folded.left) == left
    assert ("used elsewhere" in folded.reasons) == (left == 4)


def test_overridable_parameters_stay():
    text = (
        "g (float[N, 4, 6, 6] x, float[8] s) => (float[N, 8, 4, 4] y)"
        "{ c = Conv (x, w) y = BatchNormalization (c, s, o, m, v) }"
    )
    folded = fold(PASS, text, {"w": some(8, 4, 3, 3), **norm(8)})
    assert folded.left == ["Conv", "BatchNormalization"]
    assert "not constant" in folded.reasons


def test_negative_variance_stays():
    constants = {"w": some(8, 4, 3, 3), **norm(8), "v": -np.ones(8, np.float32)}
    folded = fold(PASS, CONV % ("group = 1", ""), constants)
    assert folded.left == ["Conv", "BatchNormalization"]
    assert "not finite" in folded.reasons


def test_weights_that_overflow_stay():
    constants = {"w": some(8, 4, 3, 3, dtype=np.float16) * np.float16(1e4), **norm(8, np.float16)}
    constants["v"] = np.zeros(8, np.float16)
    folded = fold(PASS, (CONV % ("group = 1", "")).replace("float[", "float16["), constants)
    assert folded.left == ["Conv", "BatchNormalization"]
    assert "range of float16" in folded.reasons


def test_before_initializers_need_no_input():
    """At IR version 3 a new weight is a Constant node, which must come before the operator that uses it."""
    numbers = ", ".join("0.5" for _ in range(8 * 4))
    vector = "Constant <value = float[8] {" + ", ".join(["0.5"] * 8) + "}> ()"
    text = (
        "g (float[N, 4, 6, 6] x) => (float[N, 8, 6, 6] y) {"
        f" w = Constant <value = float[8, 4, 1, 1] {{{numbers}}}> ()"
        f" p = {vector} c = Conv (x, w) y = BatchNormalization (c, p, p, p, p) }}"
    )
    assert fold(PASS, text, opset=8, ir_version=3).left == ["Conv"]
