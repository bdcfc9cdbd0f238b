"""Chains of views become one; computed shapes become constant where that holds for every size, 0 included."""

from __future__ import annotations

import pytest
from algebra_helpers import left, reasons, run_pass

from onnxsmith.graph_analysis.symbolic import make_symbol
from onnxsmith.graph_optimizer.passes.views import reshape_target

PASS = "simplify-reshapes"
N, M = make_symbol("N"), make_symbol("M")


@pytest.mark.parametrize(
    ("before", "after", "target"),
    [
        ((N, 12), (N, 3, 4), [0, 3, 4]),
        ((N, M, 12), (N, M, 3, 4), [0, 0, 3, 4]),
        ((N, 3, 4), (N * 3, 4), [-1, 4]),
        ((2, N), (N, 2), [-1, 2]),
        ((N, 0), (0, N), None),
        ((0, 4), (0, 2, 2), [0, 2, 2]),
        ((N, 2, M), (N * 2, M), None),
        ((N, 2, M), (N, M * 2), None),
        ((N, 2, M + 1), (2, N, M + 1), [2, -1, 0]),
        ((M + 1, 2, N), (M + 1, N, 2), [0, -1, 2]),
    ],
)
def test_targets(before: tuple, after: tuple, target: list[int] | None) -> None:
    assert reshape_target(before, after) == target


@pytest.mark.parametrize(
    ("body", "output", "remain"),
    [
        ("s = Constant<value_ints = [-1]>() a = Reshape(x, s) y = Unsqueeze(a, zero)", "[1, M]", ["Reshape"]),
        ("a = Unsqueeze(x, zero) b = Squeeze(a, zero) y = Exp(b)", "[N, 4, 6]", ["Exp"]),
        ("a = Unsqueeze(x, zero) b = Unsqueeze(a, two) y = Exp(b)", "[1, N, 1, 4, 6]", ["Unsqueeze", "Exp"]),
        ("a = Flatten(x) s = Constant<value_ints = [0, 4, 6]>() b = Reshape(a, s) y = Exp(b)", "[N, 4, 6]", ["Exp"]),
        ("a = ReduceMax<axes = [2]>(x) y = Squeeze(a, two)", "[N, 4]", ["ReduceMax"]),
        ("a = ReduceSum<keepdims = 0>(x, two) y = Unsqueeze(a, two)", "[N, 4, 1]", ["ReduceSum"]),
        ("a = ArgMax<axis = -1>(x) b = Squeeze(a, two) y = Cast<to = 1>(b)", "[N, 4]", ["ArgMax", "Cast"]),
        (
            "h = Shape(x) n = Gather(h, zero) s = Concat<axis = 0>(n, last) y = Reshape(x, s)",
            "[N, 24]",
            ["Reshape"],
        ),
        (
            "s = Concat<axis = 0>(last, six) a = Reshape(x, s) b = Unsqueeze(a, zero) y = Squeeze(b, zero)",
            "[M, 6]",
            ["Concat", "Reshape"],
        ),
    ],
)
def test_merges(body: str, output: str, remain: list[str]) -> None:
    text = f"""g (float[N, 4, 6] x) => (float{output} y)
        <int64[1] zero = {{0}}, int64[1] two = {{2}}, int64[1] last = {{-1}}, int64[1] six = {{6}}> {{ {body} }}"""
    operators = left(PASS, text)
    assert operators == remain or (remain[0] == "Concat" and operators == ["Reshape"])


def test_two_squeezes() -> None:
    text = """g (float[1, N, 1, 4] x) => (float[N, 4] y) <int64[1] zero = {0}, int64[1] one = {1}> {
        a = Squeeze(x, zero) y = Squeeze(a, one) }"""
    assert left(PASS, text) == ["Squeeze"]
    old = "g (float[1, N, 1, 4] x) => (float[N, 4] y) { a = Squeeze<axes = [2]>(x) y = Squeeze<axes = [0]>(a) }"
    assert left(PASS, old, opset=11) == ["Squeeze"]


def test_a_size_that_may_be_zero_beside_an_unknown_one_is_declined() -> None:
    text = """g (float[N, 2, M, 3] x) => (float[A, B, 3] y)
        <int64[1] zero = {0}, int64[1] two = {2}, int64[1] three = {3}> {
        h = Shape(x) n = Gather(h, zero) n2 = Mul(n, two) m = Gather(h, two)
        s = Concat<axis = 0>(n2, m, three) y = Reshape(x, s) }"""
    operators, result = run_pass(PASS, text, sizes=(1, 3))
    assert operators[-1] == "Reshape"
    assert "Concat" in operators
    assert "computed" in reasons(result)


def test_a_view_that_others_use_stays_for_them() -> None:
    text = """g (float[N, 4] x) => (float[M] y, float[1, M] z) <int64[1] last = {-1}, int64[1] zero = {0}> {
        a = Reshape(x, last) y = Exp(a) z = Unsqueeze(a, zero) }"""
    assert sorted(left(PASS, text)) == ["Exp", "Reshape", "Reshape"]


def test_expand_before_what_broadcasts_anyway() -> None:
    text = """g (float[1, 4] x, float[N, 4] w) => (float[N, 4] y) { s = Shape(w) a = Expand(x, s) y = Add(a, w) }"""
    assert left(PASS, text) == ["Add"]


def test_expand_that_makes_the_result_larger_stays() -> None:
    text = """g (float[1, 4] x, float[1, 4] w) => (float[3, 4] y) {
        s = Constant<value_ints = [3, 4]>() a = Expand(x, s) y = Add(a, w) }"""
    assert left(PASS, text) == ["Expand", "Add"]


def test_expand_to_a_shape_that_follows_from_its_input() -> None:
    text = """g (float[N, 1] x) => (float[2, N, 4] y) <int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}> {
        h = Shape(x) n = Gather(h, zero) s = Concat<axis = 0>(two, n, four) y = Expand(x, s) }"""
    assert left(PASS, text) == ["Expand"]


FEED_FORWARD = """g (float[6, 4] x) => (float[6, 4] y)
    <int64[3] wide = {-1, 2, 4}, int64[2] flat = {-1, 4}, float half = {0.5}, float[1] cube = {3.0}, float[4] many> {
    a = Reshape(x, wide) h = Mul(a, half) p = Pow(a, cube) s = Add(a, p) t = Tanh(s) m = Mul(h, t) y = Reshape(m, flat)
    }"""


def test_a_view_that_is_undone_after_elementwise_nodes_goes() -> None:
    text = FEED_FORWARD.replace(", float[4] many", "")
    operators, result = run_pass(PASS, text)
    assert operators == ["Mul", "Pow", "Add", "Tanh", "Mul"]
    assert result.changes


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Pow(a, cube)", "Pow(a, many)"),
        ("t = Tanh(s)", "t = Softmax(s)"),
        ("y) <", "y, float[3, 2, 4] t) <"),
        ("Add(a, p)", "Add(x, p)"),
    ],
)
def test_a_view_that_counts_between_stays(old: str, new: str) -> None:
    text = FEED_FORWARD.replace("many>", "many = {1.0, 2.0, 3.0, 4.0}>")
    text = text.replace("y)\n    <", "y) <").replace(old, new)
    if old.startswith("Add"):
        text = text.replace("x)", "x, float[3, 2, 4] z)").replace("Add(x, p)", "Add(z, p)")
    operators, _ = run_pass(PASS, text)
    assert operators.count("Reshape") == 2
