"""Nested Concats are one; cutting and putting together again cancel."""

from __future__ import annotations

import pytest
from algebra_helpers import left, model_of, reasons, run_pass

from onnxsmith.graph_optimizer.passes.concats import SimplifyConcats
from onnxsmith.model import Model

PASS = "simplify-concats"
INITS = """int64[2] parts = {3, 5}, int64[2] other = {4, 4}, int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i3 = {3},
    int64[1] i8 = {8}, int64[1] i5 = {5}, float[2, 0, 16] empty = {}"""


@pytest.mark.parametrize(
    ("body", "remain"),
    [
        ("a = Concat<axis = 1>(x, x) y = Concat<axis = -2>(a, x, a)", ["Concat"]),
        ("a = Concat<axis = 1>(x, x) b = Concat<axis = 1>(a, x) y = Concat<axis = 1>(x, b)", ["Concat"]),
        ("a = Concat<axis = 0>(x, x) y = Concat<axis = 1>(a, a)", ["Concat", "Concat"]),
        ("a = Concat<axis = 1>(x, x) b = Exp(a) y = Concat<axis = 1>(a, b)", ["Concat", "Exp", "Concat"]),
        ("y = Concat<axis = 1>(x, empty, x)", ["Concat"]),
        ("a, b = Split<axis = 1>(x, parts) y = Concat<axis = 1>(a, b)", ["Identity"]),
        ("a, b = Split<axis = 1>(x, parts) y = Concat<axis = 1>(b, a)", ["Gather"]),
        ("a = Slice(x, i3, i8, i1) b = Slice(x, i0, i3, i1) y = Concat<axis = 1>(a, b)", ["Gather"]),
        ("a = Slice(x, i0, i3, i1) b = Slice(x, i3, i8, i1) y = Concat<axis = 1>(a, b)", ["Identity"]),
        ("a, b = Split<axis = 1>(x, parts) c = Concat<axis = 1>(b, a) d = Exp(a) y = Add(d, d)", None),
        ("c = Concat<axis = 1>(x, x) a, b = Split<axis = 1>(c) y = Sub(a, b)", ["Sub"]),
        ("c = Concat<axis = 1>(x, x) a, b = Split<axis = 0>(c, i1i1) y = Sub(a, b)", None),
    ],
)
def test_concats(body: str, remain: list[str] | None) -> None:
    text = f"g (float[2, 8, 16] x) => (float[A, B, C] y) <{INITS}, int64[2] i1i1 = {{1, 1}}> {{ {body} }}"
    operators, result = run_pass(PASS, text)
    if remain is None:
        assert result.changes == 0
    else:
        assert operators == remain


def test_an_empty_input_goes() -> None:
    text = f"g (float[2, 8, 16] x) => (float[A, B, C] y) <{INITS}> {{ a = Exp(x) y = Concat<axis = 1>(a, empty, a) }}"
    result = SimplifyConcats().run(Model.from_proto(model_of(text)))
    assert [len(node.inputs) for node in result.model.nodes()] == [1, 2]


def test_small_blocks_are_left() -> None:
    body = "a, b = Split<axis = 1>(x, parts) y = Concat<axis = 1>(b, a)"
    text = f"g (float[N, 8] x) => (float[N, 8] y) <{INITS}> {{ {body} }}"
    operators, result = run_pass(PASS, text)
    assert operators == ["Split", "Concat"]
    assert "blocks too small" in reasons(result)


def test_a_deep_chain() -> None:
    depth = 3000
    body = " ".join(f"a{number + 1} = Concat<axis = 0>(a{number}, x)" for number in range(depth))
    text = f"g (float[1] x) => (float[A] y) {{ a0 = Exp(x) {body} y = Exp(a{depth}) }}"
    assert left(PASS, text, sizes=(1,)) == ["Exp", "Concat", "Exp"]
