"""Shapes that are written into the model."""

from __future__ import annotations

import numpy as np
import onnx.parser
from structure_helpers import OPSET_21, apply

from onnxsmith.graph_analysis.symbolic import Facts
from onnxsmith.graph_optimizer.passes.annotate_shapes import AnnotateShapes
from onnxsmith.model import Model

FEEDS = {"x": np.ones((2, 3, 4), np.float32)}


def shapes(text: str) -> dict[str, list[object]]:
    model = apply(AnnotateShapes(), text, FEEDS, OPSET_21).model.ir
    return {
        value.name: [str(dim) if not isinstance(dim, int) else dim for dim in value.shape]
        for node in model.graph
        for value in node.outputs
        if value.shape is not None
    }


def test_symbolic_sizes_are_written_as_expressions_of_the_inputs():
    text = """g (float[n, 3, m] x) => (float[A, B] y) {
        t = Transpose<perm = [2, 1, 0]>(x)  c = Concat<axis = 0>(t, t)  y = Flatten(c)
    }"""
    found = shapes(text)
    assert found["t"] == ["m", 3, "n"]
    assert found["c"][1:] == [3, "n"]
    assert "m" in str(found["c"][0])
    assert "2" in str(found["c"][0])


def test_an_output_stays_as_it_is_declared():
    assert shapes("g (float[n, 3, m] x) => (float[A, B, C] y) { y = Abs(x) }")["y"] == ["A", "B", "C"]


def test_a_wrong_declaration_gives_way():
    text = """g (float[2, 3, 4] x) => (float[2, 3, 4] y) <float[7] t> { t = Abs(x)  y = Neg(t) }"""
    assert shapes(text)["t"] == [2, 3, 4]


def test_what_is_known_already_is_no_change():
    text = "g (float[2, 3, 4] x) => (float[2, 3, 4] y) <float[2, 3, 4] t> { t = Abs(x)  y = Neg(t) }"
    assert apply(AnnotateShapes(), text, FEEDS, OPSET_21).changes == 0


def test_a_slope_larger_than_what_it_bends_is_broadcast_as_the_runtime_does():
    text = "g (float[2, 3, 4] x) => (float[A, B, C] y) <float[1] k = {3}> { t = PRelu(k, x)  y = Neg(t) }"
    model = Model.from_proto(onnx.parser.parse_model(OPSET_21 + text))  # ONNX's own inference does not allow it
    assert Facts(model.ir).static_shape(next(iter(model.nodes())).outputs[0]) == (2, 3, 4)
