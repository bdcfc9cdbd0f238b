import numpy as np
import pytest
from weights_helpers import fold, some

PASS = "fuse-matmul-add"


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 5), (3, 5), (3, 1), (1, 1)])
def test_matmul_and_add(shape, swapped):
    add = "Add (b, c)" if swapped else "Add (c, b)"
    text = f"g (float[3, 4] x) => (float[3, 5] y) {{ c = MatMul (x, w) y = {add} }}"
    assert fold(PASS, text, {"w": some(4, 5), "b": some(*shape)}).left == ["Gemm"]


@pytest.mark.parametrize("size", [0, 1, 3])
def test_computed_summand_of_the_same_symbolic_size(size):
    text = "g (float[N, 4] x, float[N, 5] z) => (float[N, 5] y) { c = MatMul (x, w) y = Add (c, z) }"
    assert fold(PASS, text, {"w": some(4, 5)}, size=size).left == ["Gemm"]


@pytest.mark.parametrize(
    ("inputs", "constant"),
    [
        ("float[1, 4] x", (3, 5)),
        ("float[3, 4] x", (1, 1, 5)),
        ("float[N, 4] x", (3, 5)),
    ],
)
def test_summand_that_may_change_the_shape_stays(inputs, constant):
    rank = "1, 3, 5" if len(constant) == 3 else "3, 5"
    text = f"g ({inputs}) => (float[{rank}] y) {{ c = MatMul (x, w) y = Add (c, b) }}"
    folded = fold(PASS, text, {"w": some(4, 5), "b": some(*constant)})
    assert folded.left == ["MatMul", "Add"]
    assert "broadcast" in folded.reasons


def test_rank_3_stays():
    text = "g (float[N, 3, 4] x) => (float[N, 3, 5] y) { c = MatMul (x, w) y = Add (c, b) }"
    folded = fold(PASS, text, {"w": some(4, 5), "b": some(5)})
    assert folded.left == ["MatMul", "Add"]
    assert "rank 2" in folded.reasons


QUERY_AND_KEY = """g (float[2, 3, 4] x) => (float[2, 3, 2, 3] y, float[2, 3, 1, 4] z) {
    c = MatMul (x, w) d = Add (b, c) y = Reshape (d, s)
    e = MatMul (x, v) f = Add (e, a) z = Reshape (f, t) }"""
ATTENTION = {
    "w": some(4, 6),
    "b": some(6),
    "v": some(4, 4),
    "a": some(1),
    "s": np.array([0, 0, 2, -1]),
    "t": np.array([2, 3, 1, -1]),
}


def test_products_of_one_tensor_share_its_rows():
    folded = fold(PASS, QUERY_AND_KEY, ATTENTION)
    assert sorted(folded.left) == ["Gemm"] * 2 + ["Reshape"] * 4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("float[2, 3, 4] x", "float[N, 3, 4] x"),
        ("f = Add (e, a)", "f = Add (e, e)"),
        ("f = Add (e, a)", "g = Relu (e) f = Add (g, a)"),
    ],
)
def test_rows_that_no_two_products_share(old, new):
    text = QUERY_AND_KEY.replace(old, new)
    constants = {**ATTENTION, "t": np.array([-1, 3, 1, 4]), "s": np.array([-1, 3, 2, 3])}
    assert "Gemm" not in fold(PASS, text, constants, size=2).left


def test_whole_numbers_stay():
    text = "g (int32[N, 4] x) => (int32[N, 5] y) { c = MatMul (x, w) y = Add (c, b) }"
    folded = fold(PASS, text, {"w": np.ones((4, 5), np.int32), "b": np.ones(5, np.int32)})
    assert folded.left == ["MatMul", "Add"]
    assert "element type" in folded.reasons


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_types(dtype):
    name = "double" if dtype is np.float64 else "float16"
    text = f"g ({name}[N, 4] x) => ({name}[N, 5] y) {{ c = MatMul (x, w) y = Add (c, b) }}"
    assert fold(PASS, text, {"w": some(4, 5, dtype=dtype), "b": some(5, dtype=dtype)}).left == ["Gemm"]


def test_product_of_nothing():
    text = "g (float[N, 0] x) => (float[N, 5] y) { c = MatMul (x, w) y = Add (c, b) }"
    assert fold(PASS, text, {"w": some(0, 5), "b": some(5)}).left == ["Gemm"]


def test_output_in_the_middle_stays():
    text = "g (float[N, 4] x) => (float[N, 5] y, float[N, 5] c) { c = MatMul (x, w) y = Add (c, b) }"
    folded = fold(PASS, text, {"w": some(4, 5), "b": some(5)})
    assert folded.left == ["MatMul", "Add"]
    assert "used elsewhere" in folded.reasons


@pytest.mark.parametrize(
    ("gemm", "folds"),
    [
        ("Gemm <alpha = 0.5, transB = 1> (x, t)", True),
        ("Gemm <beta = 0.0> (x, w, b)", True),
        ("Gemm (x, w, b)", False),
    ],
)
def test_add_after_gemm(gemm, folds):
    text = f"g (float[N, 4] x, float[N, 5] z) => (float[N, 5] y) {{ c = {gemm} y = Add (z, c) }}"
    folded = fold(PASS, text, {"w": some(4, 5), "t": some(5, 4), "b": some(5)})
    assert folded.left == (["Gemm"] if folds else ["Gemm", "Add"])


@pytest.mark.parametrize("perm", ["", "<perm = [1, 0]>"])
def test_transposes_of_both_operands(perm):
    text = (
        "g (float[4, N] x, float[5, 4] z) => (float[N, 5] y)"
        f"{{ a = Transpose {perm} (x) b = Transpose {perm} (z) c = MatMul (a, b) y = Add (c, k) }}"
    )
    assert fold(PASS, text, {"k": some(5)}).left == ["Gemm"]


def test_transpose_before_gemm():
    text = "g (float[4, N] x) => (float[N, 5] y) { a = Transpose (x) y = Gemm <transA = 0, transB = 1> (a, w, b) }"
    assert fold(PASS, text, {"w": some(5, 4), "b": some(5)}).left == ["Gemm"]


def test_transpose_before_a_gemm_that_transposes():
    text = "g (float[N, 4] x) => (float[N, 5] y) { a = Transpose (x) y = Gemm <transA = 1> (a, w) }"
    assert fold(PASS, text, {"w": some(4, 5)}).left == ["Gemm"]


def test_transposed_constant_of_several_products():
    text = (
        "g (float[N, 4] x, float[N, 4] z) => (float[N, 5] y, float[N, 5] u)"
        "{ t = Transpose (w) y = MatMul (x, t) u = MatMul (z, t) }"
    )
    assert fold(PASS, text, {"w": some(5, 4)}).left == ["Gemm", "Gemm"]


def test_the_transpose_that_both_operands_are():
    text = "g (float[4, 4] x) => (float[4, 4] y) { t = Transpose (x) y = MatMul (t, t) }"
    folded = fold(PASS, text)
    assert folded.left == ["Transpose", "MatMul"]
    assert "used elsewhere" in folded.reasons


def test_transpose_before_a_product_of_rank_3_stays():
    text = "g (float[N, 3, 4] x, float[5, 4] z) => (float[N, 3, 5] y) { t = Transpose (z) y = MatMul (x, t) }"
    folded = fold(PASS, text)
    assert folded.left == ["Transpose", "MatMul"]
    assert "rank 2" in folded.reasons


def test_before_c_can_be_left_out():
    text = "g (float[4, N] x) => (float[N, 5] y) { t = Transpose (x) y = MatMul (t, w) }"
    assert fold(PASS, text, {"w": some(4, 5)}, opset=9).left == ["Transpose", "MatMul"]


@pytest.mark.parametrize(("opset", "inputs"), [(13, 2), (10, 3)])
def test_zero_c(opset, inputs):
    text = "g (float[N, 4] x) => (float[N, 5] y) { y = Gemm (x, w, b) }"
    folded = fold(PASS, text, {"w": some(4, 5), "b": np.zeros(5, np.float32)}, opset=opset)
    assert len(folded.model.graph.node[0].input) == inputs
