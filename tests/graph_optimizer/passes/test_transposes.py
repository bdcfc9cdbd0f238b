"""Transposes merge and cancel, also across views and elementwise nodes."""

from __future__ import annotations

import numpy as np
import pytest
from algebra_helpers import left

PASS = "simplify-transposes"
INITS = """int64[1] zero = {0}, int64[3] rows = {0, 5, -1}, int64[4] image = {0, 4, 5, 6}, int64[3] odd = {0, 4, 30},
    int64[2] flat = {-1, 6}, float two = {2.0}, float[1] one = {1.5}, float[6] row = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}"""


@pytest.mark.parametrize(
    ("body", "rank", "remain"),
    [
        ("a = Transpose<perm = [0, 2, 3, 1]>(x) y = Transpose<perm = [0, 3, 1, 2]>(a)", 4, ["Identity"]),
        ("a = Transpose<perm = [0, 2, 3, 1]>(x) y = Transpose<perm = [0, 2, 1, 3]>(a)", 4, ["Transpose"]),
        ("a = Transpose(x) y = Transpose(a)", 4, ["Identity"]),
        (
            "a = Transpose<perm = [0, 2, 3, 1]>(x) b = Relu(a) c = Mul(two, b) d = Clip(c, two) "
            "y = Transpose<perm = [0, 3, 1, 2]>(d)",
            4,
            ["Relu", "Mul", "Clip"],
        ),
        (
            "a = Transpose<perm = [0, 2, 1, 3]>(x) b = Add(a, row) y = Transpose<perm = [0, 2, 1, 3]>(b)",
            4,
            ["Transpose", "Add", "Transpose"],
        ),
        (
            "a = Transpose<perm = [0, 2, 3, 1]>(x) b = Relu(a) c = Transpose<perm = [0, 3, 1, 2]>(b) "
            "d = Transpose<perm = [0, 3, 1, 2]>(b) y = Concat<axis = 0>(c, d)",
            4,
            ["Transpose", "Relu", "Transpose", "Transpose", "Concat"],
        ),
        (
            "a = Transpose<perm = [0, 2, 3, 1]>(x) s = Constant<value_ints = [0, 30, 4]>() b = Reshape(a, s) "
            "y = Transpose<perm = [0, 2, 1]>(b)",
            3,
            ["Reshape"],
        ),
        (
            "s = Constant<value_ints = [0, 4, 30]>() a = Reshape(x, s) b = Transpose<perm = [0, 2, 1]>(a) "
            "t = Constant<value_ints = [0, 5, 6, 4]>() c = Reshape(b, t) y = Transpose<perm = [0, 3, 1, 2]>(c)",
            4,
            ["Reshape", "Reshape"],
        ),
        (
            "a = Transpose<perm = [0, 2, 3, 1]>(x) s = Constant<value_ints = [0, 20, 6]>() b = Reshape(a, s) "
            "y = Transpose<perm = [0, 2, 1]>(b)",
            3,
            ["Transpose", "Reshape", "Transpose"],
        ),
        (
            "u = Unsqueeze(x, zero) a = Transpose<perm = [1, 0, 2, 3, 4]>(u) y = Squeeze(a, i1)",
            4,
            ["Reshape", "Squeeze"],
        ),
    ],
)
def test_transposes(body: str, rank: int, remain: list[str]) -> None:
    shape = ", ".join("ABCDE"[:rank])
    text = f"g (float[N, 4, 5, 6] x) => (float[{shape}] y) <{INITS}, int64[1] i1 = {{1}}> {{ {body} }}"
    assert left(PASS, text) == remain


def test_a_transpose_of_ones_is_a_view() -> None:
    text = """g (float[N, 1, 4] x) => (float[N, 2, 2] y) <int64[3] shape = {0, 2, 2}> {
        a = Transpose<perm = [0, 2, 1]>(x) y = Reshape(a, shape) }"""
    assert left(PASS, text) == ["Reshape"]
    wide = text.replace("[N, 1, 4] x", "[N, 2, 2] x")
    assert left(PASS, wide) == ["Transpose", "Reshape"]


def test_the_declared_shapes_between_follow() -> None:
    text = """g (float[2, 3, 4] x) => (float[2, 3, 4] y, float[2, 3, 4] z) {
        a = Transpose<perm = [0, 2, 1]>(x) b = Exp(a) y = Transpose<perm = [0, 2, 1]>(b) z = Relu(y) }"""
    assert left(PASS, text) == ["Exp", "Relu"]


def test_a_chain_of_thousands() -> None:
    body = " ".join(f"a{number + 1} = Transpose<perm = [1, 0]>(a{number})" for number in range(2001))
    text = f"g (float[2, 3] x) => (float[A, B] y) {{ a0 = Exp(x) {body} y = Exp(a2001) }}"
    assert left(PASS, text, x=np.ones((2, 3), np.float32)) == ["Exp", "Transpose", "Exp"]
