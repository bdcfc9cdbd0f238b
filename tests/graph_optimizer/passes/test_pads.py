"""Two Pads are one where they fill in the same."""

from __future__ import annotations

import pytest
from algebra_helpers import left, reasons, run_pass

PASS = "fuse-pads"
ONE = "int64[4] one = {1, 0, 2, 0}, int64[4] two = {0, 3, 1, 1}, int64[4] crop = {0, -1, 0, 0}"
FILL = "float zero = {0.0}, float minus = {-0.0}, float five = {5.0}"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("a = Pad(x, one) y = Pad(a, two)", None),
        ("a = Pad(x, one, zero) y = Pad(a, two)", None),
        ("a = Pad(x, one, five) y = Pad(a, two, five)", None),
        ('a = Pad<mode = "edge">(x, one) y = Pad<mode = "edge">(a, two)', None),
        ("a = Pad(x, one, five) y = Pad(a, two)", "different values"),
        ("a = Pad(x, one, minus) y = Pad(a, two, zero)", "different values"),
        ("a = Pad(x, two) y = Pad(a, crop)", "crops"),
        ('a = Pad(x, one) y = Pad<mode = "edge">(a, two)', "mode"),
        ('a = Pad<mode = "reflect">(x, two) y = Pad<mode = "reflect">(a, two)', "mode reflect"),
    ],
)
def test_two_pads(body: str, why: str | None) -> None:
    text = f"g (float[N, 4] x) => (float[A, B] y) <{ONE}, {FILL}> {{ {body} }}"
    operators, result = run_pass(PASS, text, sizes=(2, 3))
    assert operators == ["Pad"] * (1 if why is None else 2)
    assert (why or "") in reasons(result)


def test_a_pad_that_others_see_stays() -> None:
    text = f"g (float[N, 4] x) => (float[A, B] a, float[C, D] y) <{ONE}> {{ a = Pad(x, one) y = Pad(a, two) }}"
    assert left(PASS, text) == ["Pad", "Pad"]


def test_old_opsets() -> None:
    text = """g (float[N, 4] x) => (float[A, B] y) {
        a = Pad<pads = [1, 0, 0, 0], value = 2.0>(x) y = Pad<pads = [0, 0, 0, 2], value = 2.0>(a) }"""
    assert left(PASS, text, opset=9) == ["Pad"]
