"""Sizes that are computed more than once, or in more nodes than it takes; the answers stay for every size."""

from __future__ import annotations

import numpy as np
import pytest
from algebra_helpers import left, run_pass

SHARED = """g (float[N,4] x) => (float[A,B] y, float[C,D] z) {
    s = Shape(x) n = Gather(s, zero) u = Unsqueeze(n, axes) a = Concat<axis = 0>(u, two, minus) y = Reshape(x, a)
    t = Shape(x) m = Gather(t, zero) v = Unsqueeze(m, axes) b = Concat<axis = 0>(v, two, minus) z = Reshape(x, b) }"""
NUMBERS = {
    "zero": np.array(0),
    "axes": np.array([0]),
    "two": np.array([2]),
    "minus": np.array([-1]),
    "four": np.array(4),
}


def test_what_two_nodes_compute_is_computed_once_and_directly():
    text = SHARED.replace("float[A,B]", "float[A,B,C]").replace("float[C,D]", "float[A,B,C]")
    assert left("evaluate-shapes", text, constants=NUMBERS) == ["Shape", "Concat", "Reshape", "Reshape"]


def test_before_shape_takes_a_range():
    text = SHARED.replace("float[A,B]", "float[A,B,C]").replace("float[C,D]", "float[A,B,C]")
    names = left("evaluate-shapes", text, opset=13, constants=NUMBERS)
    assert names == ["Shape", "Gather", "Concat", "Reshape", "Reshape"]


def test_neighbours_that_are_known_become_one_constant():
    text = SHARED.replace("float[A,B]", "float[A,B,C]").replace("float[C,D]", "float[A,B,C]")
    _, result = run_pass("evaluate-shapes", text, constants=NUMBERS)
    (concat,) = (node for node in result.model.nodes() if node.op_type == "Concat")
    assert len(concat.inputs) == 2
    assert concat.inputs[1].const_value.numpy().tolist() == [2, -1]


def test_a_division_that_undoes_a_product_goes():
    text = """g (float[N,M,4] x) => (float[A,B] y) {
        s = Shape(x) n = Gather(s, zero) f = Mul(n, four) d = Div(f, four) c = Add(d, zero)
        u = Unsqueeze(c, axes) a = Concat<axis = 0>(u, minus) y = Reshape(x, a) }"""
    names = left("evaluate-shapes", text, constants=NUMBERS)
    assert names == ["Shape", "Concat", "Reshape"]


def test_a_vector_of_an_inputs_sizes_is_its_shape():
    text = """g (float[N,M] x, float[N,M] z) => (float[N,M] y) {
        s = Shape(x) n = Gather(s, zero) m = Gather(s, one) a = Unsqueeze(n, axes) b = Unsqueeze(m, axes)
        c = Concat<axis = 0>(a, b) y = Reshape(z, c) }"""
    assert left("evaluate-shapes", text, constants={**NUMBERS, "one": np.array(1)}) == ["Shape", "Reshape"]


def test_sizes_of_two_names_are_not_one():
    text = """g (float[N] x, float[M] z) => (int64[1] y, int64[1] w) {
        s = Shape(x) a = Add(s, k) y = Neg(a) t = Shape(z) b = Add(t, k) w = Neg(b) }"""
    feeds = {"x": np.zeros(2, np.float32), "z": np.zeros(5, np.float32)}
    names = left("evaluate-shapes", text, constants={"k": np.array([3])}, **feeds)
    assert sorted(names) == ["Add", "Add", "Neg", "Neg", "Shape", "Shape"]


def test_another_dtype_is_another_value():
    text = """g (float[N] x) => (int32[1] y, int64[1] z) {
        s = Shape(x) a = Cast<to = 6>(s) y = Neg(a) z = Neg(s) }"""
    assert left("evaluate-shapes", text) == ["Shape", "Cast", "Neg", "Neg"]


def test_a_branch_takes_what_stands_outside():
    text = """g (float[N,4] x, bool c) => (int64[1] y, int64[1] z) {
        s = Shape(x) n = Slice(s, axes, one) z = Neg(n)
        y = If(c) <then_branch = a () => (int64[1] p) { t = Shape(x) m = Slice(t, axes, one) p = Abs(m) },
                   else_branch = b () => (int64[1] q) { u = Shape(x) q = Slice(u, axes, one) }> }"""
    _, result = run_pass("evaluate-shapes", text, constants={"axes": np.array([0]), "one": np.array([1])})
    graphs = [[node.op_type for node in graph] for _, graph in result.model.graphs()]
    assert graphs == [["Shape", "Neg", "If"], ["Abs"], ["Shape", "Slice"]]


def test_what_a_branch_makes_is_not_there_outside():
    text = """g (float[N,4] x, bool c) => (int64[1] y, int64[1] z) {
        y = If(c) <then_branch = a () => (int64[1] p) { t = Shape(x) m = Slice(t, axes, one) p = Abs(m) },
                   else_branch = b () => (int64[1] q) { u = Shape(x) v = Slice(u, axes, one) q = Neg(v) }>
        s = Shape(x) n = Slice(s, axes, one) z = Neg(n) }"""
    _, result = run_pass("evaluate-shapes", text, constants={"axes": np.array([0]), "one": np.array([1])})
    graphs = [[node.op_type for node in graph] for _, graph in result.model.graphs()]
    assert graphs == [["If", "Shape", "Neg"], ["Shape", "Abs"], ["Shape", "Neg"]]


@pytest.mark.parametrize("size", [0, 1, 5])
def test_an_output_keeps_its_node(size):
    text = "g (float[N,4] x) => (int64[2] y, int64[2] z) { y = Shape(x) z = Shape(x) }"
    assert left("evaluate-shapes", text, sizes=(size,)) == ["Shape", "Shape"]
