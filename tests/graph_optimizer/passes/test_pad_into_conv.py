import numpy as np
import pytest
from weights_helpers import fold, some

PASS = "fold-pad"
TEXT = "g (float[N, 2, 6, 6] x) => (float[N, M, H, W] y) { a = Pad %s y = %s }"
PADS = np.array([0, 0, 1, 0, 0, 0, 2, 1])
WEIGHTS = {"w": some(3, 2, 3, 3), "p": PADS}


@pytest.mark.parametrize("value", [None, 0.0, -0.0])
@pytest.mark.parametrize(
    ("attributes", "pads"),
    [("group = 1", [1, 0, 2, 1]), ("pads = [1, 2, 3, 0]", [2, 2, 5, 1]), ('auto_pad = "VALID"', [1, 0, 2, 1])],
)
def test_conv(value, attributes, pads):
    text = TEXT % ("(x, p)" if value is None else "(x, p, v)", f"Conv <{attributes}> (a, w)")
    constants = {**WEIGHTS, **({} if value is None else {"v": np.array(value, np.float32)})}
    folded = fold(PASS, text, constants)
    assert folded.left == ["Conv"]
    assert next(list(found.ints) for found in folded.model.graph.node[0].attribute if found.name == "pads") == pads


def test_axes():
    text = TEXT % ("(x, p, , axes)", "Conv (a, w)")
    constants = {**WEIGHTS, "p": np.array([1, 2]), "axes": np.array([-1])}
    assert fold(PASS, text, constants, opset=18).left == ["Conv"]


def test_attributes():
    text = TEXT % ("<pads = [0, 0, 1, 0, 0, 0, 2, 1]> (x)", "Conv (a, w)")
    assert fold(PASS, text, WEIGHTS, opset=10).left == ["Conv"]


@pytest.mark.parametrize(
    ("pads", "pad", "conv", "reason"),
    [
        ([0, 0, 1, 1, 0, 0, 1, 1], '<mode = "reflect"> (x, p)', "Conv (a, w)", "mode reflect"),
        ([0, 0, 1, 1, 0, 0, 1, 1], "(x, p, one)", "Conv (a, w)", "pads with 0, it with 1.0"),
        ([0, 0, 1, -1, 0, 0, 1, 0], "(x, p)", "Conv (a, w)", "crops"),
        ([1, 0, 1, 1, 0, 0, 1, 1], "(x, p)", "Conv (a, w)", "the batch or the channels"),
        ([0, 0, 1, 1, 0, 0, 1, 1], "(x, p)", 'Conv <auto_pad = "SAME_UPPER"> (a, w)', "auto_pad"),
    ],
)
def test_conv_that_cannot_take_it(pads, pad, conv, reason):
    folded = fold(PASS, TEXT % (pad, conv), {**WEIGHTS, "p": np.array(pads), "one": np.array(1, np.float32)})
    assert folded.left == ["Pad", "Conv"]
    assert reason in folded.reasons


def test_computed_pads_stay():
    text = (TEXT % ("(x, p)", "Conv (a, w)")).replace("6] x)", "6] x, int64[8] q)").replace("{", "{ p = Mul (q, z)")
    folded = fold(PASS, text, {"w": WEIGHTS["w"], "z": np.array(0)})
    assert folded.left == ["Mul", "Pad", "Conv"]


def test_each_of_several_users():
    text = TEXT % ("(x, p)", "Conv (a, w) e = Conv <pads = [1, 1, 1, 1]> (a, w)")
    text = text.replace("W] y)", "W] y, float[N, M, I, J] e)")
    assert fold(PASS, text, WEIGHTS).left == ["Conv", "Conv"]


@pytest.mark.parametrize("other", ["Relu (a)", "Conv (x, a)", 'Conv <auto_pad = "SAME_UPPER"> (a, w)'])
def test_several_users_of_which_one_cannot_take_it(other):
    text = TEXT % ("(x, p)", f"Conv (a, w) e = {other}")
    text = text.replace("W] y)", "W] y, float[A, B, I, J] e)").replace("[N, 2, 6, 6] x", "[2, 2, 16, 16] x")
    if "x, a" in other:
        text = text.replace("Conv (x, a)", "Conv (z, a)").replace("16] x)", "16] x, float[1, 2, 40, 40] z)")
    folded = fold(PASS, text, WEIGHTS)
    assert folded.left[0] == "Pad"
    assert folded.reasons


def test_output_in_the_middle_stays():
    text = (TEXT % ("(x, p)", "Conv (a, w)")).replace("W] y)", "W] y, float[N, A, B, C] a)")
    assert fold(PASS, text, WEIGHTS).left == ["Pad", "Conv"]


@pytest.mark.parametrize(
    ("attributes", "folds"),
    [
        ("count_include_pad = 1", True),
        ("strides = [2, 2]", True),
        ("count_include_pad = 1, pads = [0, 1, 0, 1]", True),
        ("pads = [0, 1, 0, 1]", False),
        ("ceil_mode = 1, strides = [2, 2]", False),
        ("count_include_pad = 1, pads = [1, 1, 1, 1]", False),
    ],
)
def test_average_pool(attributes, folds):
    text = TEXT % ("(x, p)", f"AveragePool <kernel_shape = [3, 3], {attributes}> (a)")
    folded = fold(PASS, text, {"p": PADS})
    assert folded.left == (["AveragePool"] if folds else ["Pad", "AveragePool"])
    assert bool(folded.reasons) != folds


@pytest.mark.parametrize(
    ("value", "kernel", "folds"), [(-np.inf, 3, True), (-np.inf, 2, False), (0.0, 3, False), (-1e30, 3, False)]
)
def test_max_pool(value, kernel, folds):
    text = TEXT % ("(x, p, v)", f"MaxPool <kernel_shape = [{kernel}, {kernel}]> (a)")
    folded = fold(PASS, text, {"p": PADS, "v": np.array(value, np.float32)})
    assert folded.left == (["MaxPool"] if folds else ["Pad", "MaxPool"])
    assert bool(folded.reasons) != folds


@pytest.mark.parametrize("size", [0, 6])
def test_size_that_may_be_zero(size):
    """A Conv takes an empty image, a pooling does not."""
    text = (TEXT % ("(x, p)", "AveragePool <kernel_shape = [3, 3]> (a)")).replace("6, 6", "S, S")
    folded = fold(PASS, text, {"p": PADS}, size=max(size, 1))
    assert folded.left == ["Pad", "AveragePool"]
    assert "may be empty" in folded.reasons
    text = (TEXT % ("(x, p)", "Conv (a, w)")).replace("N, 2, 6, 6", "1, 2, S, S")
    assert fold(PASS, text, {**WEIGHTS, "p": np.array([0, 0, 1, 2, 0, 0, 2, 1])}, size=size).left == ["Conv"]


def test_max_pool_with_indices_stays():
    text = TEXT % ("(x, p, v)", "MaxPool <kernel_shape = [3, 3]> (a)")
    text = text.replace("y = Max", "y, i = Max").replace("W] y)", "W] y, int64[N, M, H, W] i)")
    folded = fold(PASS, text, {"p": PADS, "v": np.array(-np.inf, np.float32)})
    assert folded.left == ["Pad", "MaxPool"]
    assert "indices" in folded.reasons


@pytest.mark.parametrize(("point", "value", "folds"), [(3, 3, True), (3, 0, False), (None, 0, True)])
def test_conv_integer(point, value, folds):
    text = (
        "g (uint8[N, 2, 6, 6] x) => (int32[N, M, H, W] y)"
        f"{{ a = Pad (x, p, v) y = ConvInteger (a, w{'' if point is None else ', z'}) }}"
    )
    constants = {
        "w": np.arange(54, dtype=np.uint8).reshape(3, 2, 3, 3),
        "p": PADS,
        "v": np.array(value, np.uint8),
        "z": np.array(3, np.uint8),
    }
    folded = fold(PASS, text, constants)
    assert folded.left == (["ConvInteger"] if folds else ["Pad", "ConvInteger"])


@pytest.mark.parametrize(("value", "folds"), [(7, True), (0, False)])
def test_qlinear_conv(value, folds):
    text = (
        "g (uint8[N, 2, 6, 6] x) => (uint8[N, M, H, W] y){ a = Pad (x, p, v) y = QLinearConv (a, s, z, w, s, z, s, z) }"
    )
    constants = {
        "w": np.arange(54, dtype=np.uint8).reshape(3, 2, 3, 3),
        "p": PADS,
        "v": np.array(value, np.uint8),
        "z": np.array(7, np.uint8),
        "s": np.array(0.01, np.float32),
    }
    assert fold(PASS, text, constants).left == (["QLinearConv"] if folds else ["Pad", "QLinearConv"])
