"""Branches that cannot run because of what follows."""

from __future__ import annotations

import numpy as np
import pytest
from structure_helpers import apply, op_types

from onnxsmith.graph_optimizer.passes.branches import DecideBranches

X = {"x": np.ones((2, 3, 1), np.float32), "c": np.array(True)}
IF = """
    two = Constant<value = int64[1] {2}>()
    v = If (c) <
        then_branch = t () => (float[A, B] a) { a = Squeeze(x, two) },
        else_branch = e () => (float[A, B, C] b) { b = Identity(x) }
    >
"""
HEAD = "g (float[n, 3, m] x, bool c) => (float[P, Q] y) "


def test_a_matrix_product_decides_for_rank_2():
    text = HEAD + "<float[3, 5] w = {" + ",".join(["0.5"] * 15) + "}> {" + IF + " y = Gemm(v, w) }"
    assert op_types(apply(DecideBranches(), text, X)) == ["Squeeze", "Gemm"]


def test_a_node_that_takes_any_rank_decides_nothing():
    text = HEAD + "{" + IF + " y = Abs(v) }"
    assert op_types(apply(DecideBranches(), text, X))[0] == "If"


@pytest.mark.parametrize("operator", ["Relu(v)", "Neg(v)"])
def test_what_lies_between_is_seen_through(operator):
    weights = "<float[3, 5] w = {" + ",".join(["0.5"] * 15) + "}>"
    text = HEAD + weights + " {" + IF + f" r = {operator}  y = Gemm(r, w) }}"
    assert op_types(apply(DecideBranches(), text, X))[0] == "Squeeze"


def test_a_node_that_may_not_run_decides_nothing():
    weights = "<float[3, 5] w = {" + ",".join(["0.5"] * 15) + "}>"
    text = (
        "g (float[n, 3, m] x, bool c) => (float y) "
        + weights
        + " {"
        + IF
        + """ y = If (c) <
                then_branch = t2 () => (float s) { p = Gemm(v, w)  s = ReduceMax<keepdims = 0>(p) },
                else_branch = e2 () => (float u) { u = ReduceMax<keepdims = 0>(v) }
            > }"""
    )
    assert op_types(apply(DecideBranches(), text, X)).count("If") == 2
