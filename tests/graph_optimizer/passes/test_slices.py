"""Slices merge, pass Concats and become Splits; Gather takes in its Unsqueeze."""

from __future__ import annotations

import pytest
from algebra_helpers import left, reasons, run_pass

PASS = "simplify-slices"
CONSTANTS = ", ".join(
    f"int64[1] {name} = {{{number}}}"
    for name, number in {
        "i0": 0,
        "i1": 1,
        "i2": 2,
        "i3": 3,
        "i5": 5,
        "i8": 8,
        "m1": -1,
        "m2": -2,
        "m3": -3,
        "m9": -9,
        "last": 9223372036854775807,
    }.items()
)


@pytest.mark.parametrize(
    ("body", "remain"),
    [
        ("a = Slice(x, i1, i5, i1) y = Slice(a, i1, last, i2)", ["Slice"]),
        ("a = Slice(x, i1, last, i1) y = Slice(a, i2, m1, i1)", ["Slice"]),
        ("a = Slice(x, m3, last, i1) y = Slice(a, m1, last, i1)", ["Slice"]),
        ("a = Slice(x, i1, last, i1, i2) y = Slice(a, i0, last, i1, i2)", ["Slice"]),
        ("a = Slice(x, i5, i2, i1) y = Slice(a, i0, i3, i1)", ["Slice"]),
        ("a = Slice(x, m1, m9, i1, m1) y = Slice(a, i1, i3, i1)", ["Slice", "Slice"]),
        ("a = Slice(x, i1, last, i0) y = Slice(a, i1, last, i0)", ["Slice", "Slice"]),
        ("a = Slice(x, i0, i3, i1) b = Slice(x, i3, i8, i1) y = Concat<axis = 0>(b, a)", ["Split", "Concat"]),
        ("b = Slice(x, i3, last, i1) a = Slice(x, i0, i3, i1) y = Concat<axis = 1>(a, b)", ["Split", "Concat"]),
        ("a = Slice(x, i0, i3, i1) b = Slice(x, i2, i8, i1) y = Concat<axis = 1>(b, a)", ["Slice", "Slice", "Concat"]),
        ("c = Concat<axis = 1>(x, w) y = Slice(c, i0, i8, i1)", ["Identity"]),
        ("c = Concat<axis = 1>(x, w) y = Slice(c, m2, m1, i1)", ["Slice"]),
        ("c = Concat<axis = 1>(x, w) y = Slice(c, i5, m1, i1)", ["Concat", "Slice"]),
        ("c = Concat<axis = 1>(x, w) y = Slice(c, i0, i2, i2)", ["Concat", "Slice"]),
    ],
)
def test_slices(body: str, remain: list[str]) -> None:
    if "Concat<axis = 0>(b, a)" in body:
        body = body.replace("axis = 0", "axis = 1")
    text = f"g (float[N, 8, M] x, float[N, 2, M] w) => (float[A, B, C] y) <{CONSTANTS}> {{ {body} }}"
    assert left(PASS, text) == remain


def test_backwards_twice_says_why() -> None:
    text = f"""g (float[N, 8] x) => (float[A, B] y) <{CONSTANTS}> {{
        a = Slice(x, m1, m9, i1, m1) y = Slice(a, i1, i3, i1) }}"""
    assert "backwards" in reasons(run_pass(PASS, text)[1])


def test_a_slice_that_others_use_stays_unmerged() -> None:
    text = f"""g (float[N, 8] x) => (float[A, B] y, float[C, D] z) <{CONSTANTS}> {{
        a = Slice(x, i1, i5, i1) y = Exp(a) z = Slice(a, i1, last, i0) }}"""
    assert left(PASS, text, sizes=(2, 3)) == ["Slice", "Exp", "Slice"]


def test_old_opsets() -> None:
    text = """g (float[N, 8] x) => (float[A, B] y) {
        a = Slice<axes = [1], starts = [0], ends = [3]>(x) b = Slice<axes = [1], starts = [3], ends = [9]>(x)
        y = Concat<axis = 1>(b, a) }"""
    assert left(PASS, text, opset=9) == ["Split", "Concat"]


def test_gather_and_unsqueeze() -> None:
    text = """g (float[N, 8] x) => (float[A, 1] y) <int64 last = {-1}, int64[1] one = {1}> {
        a = Gather<axis = 1>(x, last) y = Unsqueeze(a, one) }"""
    assert left(PASS, text) == ["Gather"]
    elsewhere = text.replace("{1}", "{0}").replace("[A, 1]", "[1, A]")
    assert left(PASS, elsewhere) == ["Gather", "Unsqueeze"]
