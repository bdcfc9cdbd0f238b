import numpy as np
import pytest
from weights_helpers import fold, some

PASS = "fold-affine"
CONV = "g (float[N, 4, 6, 6] x) => (float[N, M, H, W] y) { c = Conv (x, w) y = %s }"
CONV_WEIGHTS = {"w": some(5, 4, 3, 3)}


@pytest.mark.parametrize(
    "step", ["Mul (c, k)", "Mul (k, c)", "Div (c, k)", "Add (c, k)", "Add (k, c)", "Sub (c, k)", "Sub (k, c)"]
)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1), (5, 1, 1), (1, 5, 1, 1)])
@pytest.mark.parametrize("bias", [False, True])
def test_after_conv(step, shape, bias):
    text = CONV % step
    if bias:
        text = text.replace("(x, w)", "(x, w, b)")
    constants = {**CONV_WEIGHTS, "k": some(*shape), **({"b": some(5)} if bias else {})}
    assert fold(PASS, text, constants).left == ["Conv"]


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 4), (2, 1, 1, 1), (1, 1, 1, 1, 1), (5, 4, 4)])
def test_constants_that_are_not_for_each_channel_stay(shape):
    text = "g (float[2, 4, 6, 6] x) => (float[A, B, C, D] y) { c = Conv (x, w) y = Add (c, k) }"
    if len(shape) == 5:
        text = text.replace("[A, B, C, D]", "[Z, A, B, C, D]")
    folded = fold(PASS, text, {**CONV_WEIGHTS, "k": some(*shape)})
    assert folded.left == ["Conv", "Add"]
    assert "neither a number nor one for each channel" in folded.reasons


def test_one_channel_broadcast_to_many_stays():
    text = "g (float[N, 4, 6, 6] x) => (float[N, M, H, W] y) { c = Conv (x, w) y = Mul (c, k) }"
    folded = fold(PASS, text, {"w": some(1, 4, 3, 3), "k": some(5, 1, 1)})
    assert folded.left == ["Conv", "Mul"]


def test_a_vector_as_wide_as_the_output_is_not_for_each_channel():
    text = "g (float[N, 4, 6, 5] x) => (float[N, 5, 6, 5] y) { c = Conv (x, w) y = Add (c, k) }"
    assert fold(PASS, text, {"w": some(5, 4, 1, 1), "k": some(5)}).left == ["Conv", "Add"]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_chain_after_conv_transpose(group, rank):
    sizes = ", ".join("6" * rank)
    out = ", ".join("ABC"[:rank])
    text = (
        f"g (float[N, 4, {sizes}] x) => (float[N, M, {out}] y) {{ c = ConvTranspose <group = {group}> (x, w)"
        " d = Mul (c, k) e = Sub (d, l) f = Div (e, k) y = Add (f, l) }"
    )
    channels = (1, 3 * group, *[1] * rank)
    constants = {"w": some(4, 3, *[3] * rank), "k": some(*channels), "l": some(*channels, seed=1)}
    assert fold(PASS, text, constants).left == ["ConvTranspose"]


@pytest.mark.parametrize("c", ["", ", b", ", d"])
@pytest.mark.parametrize("shape", [(), (5,), (1, 5)])
@pytest.mark.parametrize("transposed", [0, 1])
def test_after_gemm(c, shape, transposed):
    text = (
        "g (float[N, 4] x) => (float[N, 5] y)"
        f"{{ g = Gemm <alpha = 0.3, beta = 2.0, transB = {transposed}> (x, w{c}) e = Mul (g, k) y = Sub (k, e) }}"
    )
    constants = {"w": some(*((5, 4) if transposed else (4, 5))), "b": some(5), "d": some(), "k": some(*shape, seed=1)}
    assert fold(PASS, text, constants).left == ["Gemm"]


@pytest.mark.parametrize("size", ["N, 4", "N, 7, 4", "2, N, 7, 4"])
def test_after_matmul(size):
    text = f"g (float[{size}] x) => (float[{size[:-1]}5] y) {{ c = MatMul (x, w) d = Add (b, c) y = Mul (d, k) }}"
    folded = fold(PASS, text, {"w": some(4, 5), "b": some(5), "k": some(5, seed=1)})
    assert folded.left == ["MatMul", "Add"]


def test_after_matmul_the_add_stays():
    text = "g (float[N, 4] x) => (float[N, 5] y) { c = MatMul (x, w) d = Mul (c, k) y = Add (d, b) }"
    folded = fold(PASS, text, {"w": some(4, 5), "b": some(5), "k": some(5, seed=1)})
    assert folded.left == ["MatMul", "Add"]
    assert not folded.reasons


def test_product_of_whole_numbers_stays():
    text = "g (int32[N, 4] x) => (int32[N, 5] y) { c = MatMul (x, w) y = Mul (c, k) }"
    folded = fold(PASS, text, {"w": np.ones((4, 5), np.int32), "k": np.array(3, np.int32)})
    assert folded.left == ["MatMul", "Mul"]


def test_scale_of_computed_operands_stays():
    text = "g (float[N, 4] x, float[4, 5] z) => (float[N, 5] y) { c = MatMul (x, z) y = Div (c, k) }"
    assert fold(PASS, text, {"k": np.array(8, np.float32)}).left == ["MatMul", "Div"]


@pytest.mark.parametrize("number", [0.0, np.inf, np.nan])
def test_factors_that_are_not_finite_stay(number):
    folded = fold(PASS, CONV % "Div (c, k)", {**CONV_WEIGHTS, "k": np.full(1, number, np.float32)})
    assert folded.left == (["Conv"] if np.isinf(number) else ["Conv", "Div"])


@pytest.mark.parametrize(
    ("after", "shape", "left"),
    [
        ("Conv <pads = [1, 1, 1, 1]> (a, w)", (), ["Conv"]),
        ("Conv <pads = [1, 1, 1, 1], group = 2> (a, g)", (1, 4, 1, 1), ["Conv"]),
        ("Conv (a, w)", (4, 1, 1), ["Conv"]),
        ("Conv (a, w)", (6,), ["Mul", "Conv"]),
        ("Conv (a, w)", (1, 1, 1, 1, 1), ["Mul", "Conv"]),
        ("ConvTranspose <group = 2, pads = [1, 1, 1, 1]> (a, t)", (4, 1, 1), ["ConvTranspose"]),
    ],
)
def test_factor_before_a_convolution(after, shape, left):
    text = f"g (float[N, 4, 6, 6] x) => (float[N, M, H, W] y) {{ a = Mul (k, x) y = {after} }}"
    constants = {"w": some(6, 4, 3, 3), "g": some(6, 2, 3, 3), "t": some(4, 5, 3, 3), "k": some(*shape)}
    if len(shape) == 5:
        text = text.replace("y = Conv (a, w)", "s = Squeeze (a, z) y = Conv (s, w)")
        constants["z"] = np.array([0])
        left = ["Mul", "Squeeze", "Conv"]
    assert fold(PASS, text, constants).left == left


def test_factor_that_broadcasts_the_channels_of_a_conv_stays():
    text = "g (float[N, 1, 6, 6] x) => (float[N, M, H, W] y) { a = Mul (x, k) y = Conv (a, w) }"
    folded = fold(PASS, text, {"w": some(6, 4, 3, 3), "k": some(4, 1, 1)})
    assert folded.left == ["Mul", "Conv"]


def test_summand_before_a_convolution_stays():
    text = "g (float[N, 4, 6, 6] x) => (float[N, M, H, W] y) { a = Add (x, k) y = Conv <pads = [1, 1, 1, 1]> (a, w) }"
    assert fold(PASS, text, {"w": some(6, 4, 3, 3), "k": some(1)}).left == ["Add", "Conv"]


def test_number_before_a_product():
    text = "g (float[N, 7, 4] x) => (float[N, 7, 5] y) { a = Div (x, k) y = MatMul (a, w) }"
    assert fold(PASS, text, {"w": some(4, 5), "k": np.array(3, np.float32)}).left == ["MatMul"]


def test_vector_before_a_product_stays():
    text = "g (float[N, 7, 4] x) => (float[N, 7, 5] y) { a = Mul (x, k) y = MatMul (a, w) }"
    folded = fold(PASS, text, {"w": some(4, 5), "k": some(4)})
    assert folded.left == ["Mul", "MatMul"]
    assert "no single number" in folded.reasons


def test_end_of_a_gelu_stays():
    text = (
        "g (float[N, 4] x) => (float[N, 5] y) {"
        " a = Div (x, r) b = Erf (a) c = Add (b, one) d = Mul (x, c) e = Mul (d, half) y = MatMul (e, w) }"
    )
    numbers = {"r": 2**0.5, "one": 1, "half": 0.5}
    constants = {"w": some(4, 5), **{name: np.array(number, np.float32) for name, number in numbers.items()}}
    folded = fold(PASS, text, constants)
    assert folded.left == ["Div", "Erf", "Add", "Mul", "Mul", "MatMul"]
    assert "GELU" in folded.reasons


def test_output_in_the_middle():
    text = (CONV % "Mul (c, k)").replace("W] y)", "W] y, float[N, M, H, W] c)")
    folded = fold(PASS, text, {**CONV_WEIGHTS, "k": some(1)})
    assert folded.left == ["Conv", "Mul"]
    assert "used elsewhere" in folded.reasons


def test_weights_that_a_caller_can_override_stay():
    text = "g (float[N, 4] x, float[4, 5] w) => (float[N, 5] y) { c = Gemm (x, w) y = Mul (c, k) }"
    assert fold(PASS, text, {"w": some(4, 5), "k": some(1)}).left == ["Gemm", "Mul"]


def test_operators_of_a_branch_and_of_the_graph_around_it_stay_apart():
    text = (
        "g (float[N, 4] x, bool z) => (float[N, 5] y) { c = Gemm (x, w)"
        " y = If (z) <then_branch = t () => (float[N, 5] p) { p = Mul (c, k) },"
        " else_branch = e () => (float[N, 5] q) { d = Gemm (x, w) q = Mul (d, k) }> }"
    )
    constants = {"w": some(4, 5), "k": np.array(2, np.float32)}
    folded = fold(PASS, text, constants)
    branches = {
        attribute.name: [node.op_type for node in attribute.g.node]
        for attribute in folded.model.graph.node[1].attribute
    }
    assert branches == {"then_branch": ["Mul"], "else_branch": ["Gemm"]}
    assert "another graph" in folded.reasons


def test_what_a_fold_replaced_is_gone():
    text = CONV % "Mul (c, k)"
    folded = fold(PASS, text, {**CONV_WEIGHTS, "k": some(1)})
    assert sum(tensor.name.startswith("w") for tensor in folded.model.graph.initializer) == 1


def test_large_weights_are_scaled_when_they_are_read(monkeypatch):
    monkeypatch.setattr("onnxsmith.graph_optimizer.passes.weights_math._HELD", 16)
    text = "g (float[2, 3] x) => (float[2, 4] y) { m = MatMul (x, w) y = Mul (m, k) }"
    assert fold(PASS, text, {"w": some(3, 4), "k": some(4)}).left == ["MatMul"]


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_factor_of_zero_stays_where_something_is_divided_by_it(zero):
    text = "g (float[N, 4, 6, 6] x) => (float[N, M, H, W] y) { c = Conv (x, w) m = Mul (c, k) y = Div (one, m) }"
    constants = {**CONV_WEIGHTS, "k": np.full((1,), zero, np.float32), "one": np.ones((1,), np.float32)}
    folded = fold(PASS, text, constants)
    assert folded.left == ["Conv", "Mul", "Div"]
    assert "its factor is 0" in folded.reasons


def test_a_factor_of_zero_goes_where_nothing_can_tell_its_zeros_apart():
    text = "g (float[N, 4, 6, 6] x) => (float[N, M, H, W] y) { c = Conv (x, w) m = Mul (c, k) y = Relu (m) }"
    factor = np.array([0.0, 1.0, 2.0, -0.0, 3.0], np.float32).reshape(5, 1, 1)
    assert fold(PASS, text, {**CONV_WEIGHTS, "k": factor}).left == ["Conv", "Relu"]
