"""Nodes that change nothing go, and those that only look so stay."""

from __future__ import annotations

import numpy as np
import pytest
from algebra_helpers import left, reasons, run_pass

PASS = "eliminate-noops"
ONES = np.ones(1, np.float32)


@pytest.mark.parametrize(
    "body",
    [
        "a = Identity(x)",
        "z = Constant<value = float {-0.0}>() a = Add(x, z)",
        "z = Constant<value = float {0.0}>() a = Sub(x, z)",
        "z = Constant<value = float {1.0}>() a = Mul(z, x)",
        "z = Constant<value = float {1.0}>() a = Div(x, z)",
        "z = Constant<value = float {1.0}>() a = Pow(x, z)",
        "a = Max(x)",
        "a = Mean(x)",
        "a = Concat<axis = 1>(x)",
        "a = Cast<to = 1>(x)",
        "a = CastLike(x, w)",
        "a = Dropout(x)",
        "z = Constant<value = int64[4] {0, 0, 0, 0}>() a = Pad(x, z)",
        "s = Constant<value_ints = [0]>() e = Constant<value_ints = [9223372036854775807]>() a = Slice(x, s, e)",
        "s = Constant<value_ints = [-4]>() e = Constant<value_ints = [99]>() d = Constant<value_ints = [1]>() "
        "a = Slice(x, s, e, d)",
        "s = Shape(x) a = Expand(x, s)",
        "s = Constant<value_ints = [1, 4]>() a = Expand(x, s)",
        "s = Constant<value_ints = [1, 1]>() a = Tile(x, s)",
        "s = Constant<value_ints = [-1, 4]>() a = Reshape(x, s)",
        "s = Constant<value_ints = [0, 0]>() a = Reshape(x, s)",
        "a = Flatten<axis = 1>(x)",
        "a = Transpose<perm = [0, 1]>(x)",
        "i = Constant<value_ints = [0, 1, -2, 3]>() a = Gather<axis = 1>(x, i)",
        "t = Neg(x) a = Neg(t)",
        "c = Constant<value = bool {1}>() a = Where(c, x, w)",
        "a = LeakyRelu<alpha = 1.0>(x)",
        "s = Constant<value = float[2] {1.0, 1.0}>() a = Resize(x, , s)",
        "e = Constant<value = int64[0] {}>() a = ReduceSum<noop_with_empty_axes = 1>(x, e)",
    ],
)
def test_gone(body: str) -> None:
    text = f"g (float[N, 4] x) => (float[N, 4] y) <float[1] w = {{1.0}}> {{ {body} y = Exp(a) }}"
    assert left(PASS, text)[-1:] == ["Exp"]
    assert [op for op in left(PASS, text) if op != "Shape"] == ["Exp"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("z = Constant<value = float {0.0}>() a = Add(x, z)", "-0.0"),
        ("z = Constant<value = float {-0.0}>() a = Sub(x, z)", "-0.0"),
        ("z = Constant<value = float[2, 1, 1] {1.0, 1.0}>() a = Mul(x, z)", "broadcast"),
        ("z = Constant<value = float[3, 1] {1.0, 1.0, 1.0}>() a = Mul(x, z)", "broadcast"),
        ("a = Clip(x)", "infinities"),
        ("a, m = Dropout(x) b = Not(m)", ""),
        ("z = Constant<value = float {1.0}>() a = Div(z, x)", ""),
        ("z = Constant<value = float {1.0}>() a = Pow(z, x)", ""),
        ("s = Constant<value_ints = [1]>() e = Constant<value_ints = [99]>() a = Slice(x, s, e)", ""),
        ("s = Constant<value_ints = [2, 4]>() a = Expand(x, s)", ""),
        ("a = ReduceL1<axes = [0]>(x)", ""),
    ],
)
def test_stays(body: str, why: str) -> None:
    text = f"g (float[N, 4] x) => (y) {{ {body} y = Reciprocal(a) }}".replace("(y)", "(float[M, 4] y)")
    sizes = (1,) if "[3, 1]" in body or "[2, 4]" in body else (1, 3)
    if "[2, 1, 1]" in body:
        text = text.replace("float[M, 4] y", "float[2, M, 4] y")
    operators, result = run_pass(PASS, text, sizes=sizes)
    assert result.changes == 0
    assert why in reasons(result)
    assert operators[-1] == "Reciprocal"


@pytest.mark.parametrize(
    ("rest", "remain", "strictly"),
    [
        ("y = Softmax(a)", ["Softmax"], ["Softmax"]),
        ("b = Mul(a, a) y = Exp(b)", ["Mul", "Exp"], ["Mul", "Exp"]),
        ("b = Transpose(a) c = Transpose(b) y = Relu(c)", ["Transpose", "Transpose", "Relu"], None),
        ("b = Transpose(a) c = Transpose(b) y = Reciprocal(c)", None, None),
        ("y = Div(x, a)", None, None),
        ("y = Div(a, x)", ["Div"], None),
        ("b = ReduceL2<axes = [1]>(a) y = Div(x, b)", ["ReduceL2", "Div"], ["ReduceL2", "Div"]),
        ("y = Pow(a, minus)", None, None),
        ("y = Pow(a, half)", ["Pow"], None),
    ],
)
def test_a_zero_goes_where_nobody_can_tell(rest: str, remain: list[str] | None, strictly: list[str] | None) -> None:
    text = f"""g (float[N, 4] x) => (float[N, 4] y)
        <float zero = {{0.0}}, float minus = {{-1.0}}, float half = {{0.5}}> {{ a = Add(x, zero) {rest} }}"""
    kept = run_pass("eliminate-noops{zero_signs=true}", text)[0]
    assert kept == strictly if strictly else kept[0] == "Add"
    operators = run_pass(PASS, text, signs=False)[0]
    assert operators == remain if remain else operators[0] == "Add"


def test_integers_have_no_negative_zero() -> None:
    text = "g (int64[N] x) => (int64[N] y) { z = Constant<value = int64 {0}>() a = Add(x, z) y = Abs(a) }"
    assert left(PASS, text) == ["Abs"]


def test_integer_bounds_of_the_whole_range() -> None:
    text = "g (uint8[N] x) => (float[N] y) { z = Constant<value = uint8 {0}>() a = Clip(x, z) y = Cast<to = 1>(a) }"
    assert left(PASS, text) == ["Cast"]


def test_relu_and_clip() -> None:
    text = """g (float[N] x) => (float[N] y) {
        z = Constant<value = float {0.0}>() s = Constant<value = float {6.0}>()
        a = Relu(x) b = Clip(a, z, s) c = Relu(b) y = Relu(c) }"""
    assert left(PASS, text) == ["Clip"]


def test_bounds_that_are_swapped_keep_the_relu() -> None:
    text = """g (float[N] x) => (float[N] y) {
        z = Constant<value = float {0.0}>() s = Constant<value = float {-6.0}>() a = Clip(x, z, s) y = Relu(a) }"""
    assert left(PASS, text) == ["Clip", "Relu"]


def test_an_identity_between_input_and_output_stays() -> None:
    assert left(PASS, "g (float[N] x) => (float[N] y, float[N] z) { y = Identity(x) z = Identity(x) }") == [
        "Identity",
        "Identity",
    ]


def test_outputs_keep_their_names() -> None:
    text = "g (float[N] x) => (float[N] y, float[N] z) { a = Exp(x) y = Identity(a) z = Identity(a) }"
    operators, result = run_pass(PASS, text)
    assert operators == ["Exp", "Identity"]
    assert [output.name for output in result.model.outputs] == ["y", "z"]


def test_training_mode_drops() -> None:
    text = """g (float[N] x, bool t) => (float[N] y) {
        r = Constant<value = float {0.0}>() a = Dropout(x, r, t) y = Exp(a) }"""
    operators, result = run_pass(PASS, text)
    assert operators == ["Dropout", "Exp"]
    assert "training" in reasons(result)


def test_an_initializer_that_callers_override_is_no_constant() -> None:
    text = "g (float[N] x, float[1] w) => (float[N] y) { a = Mul(x, w) y = Exp(a) }"
    assert left(PASS, text, constants={"w": ONES}) == ["Mul", "Exp"]


def test_scales_that_round_to_the_same_size_resample() -> None:
    text = """g (float[1, 1, 5, 5] x) => (float[1, 1, 5, 5] y) {
        s = Constant<value = float[4] {1.0, 1.0, 1.1, 1.1}>() a = Resize<mode = "linear">(x, , s) y = Exp(a) }"""
    assert left(PASS, text) == ["Resize", "Exp"]


@pytest.mark.parametrize(("number", "remain"), [(0.0, ["LSTM"]), (0.5, None)])
def test_initial_states_of_zeros(number: float, remain: list[str] | None) -> None:
    text = f"""g (float[T, N, 3] x, float[1, 8, 3] w, float[1, 8, 2] r) => (float[T, 1, N, 2] y)
        <int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] zero = {{0}}> {{
        s = Shape(x) n = Gather(s, one) h = Concat<axis = 0>(two, n, two)
        state = ConstantOfShape<value = float[1] {{{number}}}>(h)
        a, b = Split<axis = 0>(state)
        y = LSTM<hidden_size = 2>(x, w, r, , , a, b) }}"""
    operators = left(PASS, text)
    assert operators == remain if remain else len(operators) == 6


def test_old_opsets() -> None:
    text = """g (float[2, 4] x) => (float[2, 4] y) {
        a = Slice<starts = [0], ends = [9]>(x) b = Pad<pads = [0, 0, 0, 0]>(a) c = Dropout<ratio = 0.5>(b)
        d = Clip(c) y = Exp(d) }"""
    assert left(PASS, text, opset=9) == ["Clip", "Exp"]


def test_subgraphs() -> None:
    text = """g (bool c, float[N] x) => (float[N] y) {
        y = If(c) <
            then_branch = t () => (float[N] p) { o = Identity(x) p = Exp(o) },
            else_branch = e () => (float[N] q) { q = Identity(x) }
        > }"""
    operators, result = run_pass(PASS, text, c=np.array(False))
    assert operators == ["If"]
    assert result.changes == 1
