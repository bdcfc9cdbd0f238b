"""When one model can take another's place."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.numpy_helper import from_array

from onnxsmith.graph_optimizer.interface import compare_interfaces
from onnxsmith.model import Model

BEFORE = "g (float[N,3] x, int64[1] k) => (float[N,M] y) { y = Identity(x) z = Identity(k) }"


@pytest.fixture
def compare(build_model):
    def run(before: str, after: str):
        return compare_interfaces(Model.from_proto(build_model(before)), Model.from_proto(build_model(after)))

    return run


def test_the_same_interface(compare):
    assert compare(BEFORE, BEFORE) == ((), ())


CHANGES = {
    "name": ("x, int64", "a, int64", "inputs: x, k before, a, k after"),
    "order": ("float[N,3] x, int64[1] k", "int64[1] k, float[N,3] x", "inputs: x, k before, k, x after"),
    "dtype": ("float[N,3] x", "double[N,3] x", "input 'x': float32[N, 3] before, float64[N, 3] after"),
    "dim": ("float[N,3] x", "float[1,3] x", "input 'x': float32[N, 3] before, float32[1, 3] after"),
    "dim_name": ("float[N,3] x", "float[P,3] x", "input 'x': float32[N, 3] before, float32[P, 3] after"),
    "rank": ("float[N,M] y", "float[N] y", "output 'y': float32[N, M] before, float32[N] after"),
    "lost_name": ("float[N,M] y", "float[?,M] y", "output 'y': float32[N, M] before, float32[?, M] after"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_changes(compare, case):
    old, new, words = CHANGES[case]
    assert compare(BEFORE, BEFORE.replace(old, new)) == ((words,), ())


def test_an_output_better_known_is_no_change(compare):
    differences, refined = compare(BEFORE, BEFORE.replace("float[N,M] y", "float[N,3] y"))
    assert differences == ()
    assert refined == ("output 'y': float32[N, M] before, float32[N, 3] after",)


def test_an_initializer_that_can_no_longer_be_overridden(build_model):
    weight = from_array(np.ones(2, np.float32), "w")
    before = build_model("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }", weight)
    after = build_model("g (float[2] x) => (float[2] y) { y = Add(x, w) }", weight)
    differences, _ = compare_interfaces(Model.from_proto(before), Model.from_proto(after))
    assert differences == ("initializers that a caller can override: w before, none after",)
