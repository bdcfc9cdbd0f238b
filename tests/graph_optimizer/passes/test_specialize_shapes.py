"""Dimensions that are fixed or renamed: in the inputs, in the outputs, and what lies between."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from onnxsmith.errors import TensorError
from onnxsmith.graph_optimizer.passes.specialize_shapes import SpecializeShapes
from onnxsmith.graph_optimizer.passes.table import make_pass
from onnxsmith.model import Model

TEXT = """<ir_version: 8, opset_import: ["": 17]>
g (float[batch,3,h,w] x, float[batch,?] z) => (float[batch,3,h,w] y, float[batch] r) {
    a = Relu(x) y = Neg(a) r = ReduceSum<keepdims = 0>(z, one) }"""


def specialise(text: str = TEXT, **dims: int | str) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "one"))
    result = SpecializeShapes({name.replace("__", "."): new for name, new in dims.items()}).run(Model.from_proto(proto))
    after = result.model.to_proto()
    onnx.checker.check_model(after, full_check=True)
    return after


def shapes(model: onnx.ModelProto) -> dict[str, list[int | str]]:
    return {
        value.name: [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in value.type.tensor_type.shape.dim
        ]
        for value in (*model.graph.input, *model.graph.output, *model.graph.value_info)
    }


def test_a_name_is_fixed_wherever_it_stands():
    found = shapes(specialise(batch=2, w=8))
    assert found["x"] == [2, 3, "h", 8]
    assert found["y"] == [2, 3, "h", 8]
    assert found["z"][0] == 2
    assert found["r"] == [2]


def test_the_answers_stay():
    after = specialise(batch=2, h=4, w=5)
    feeds = {"x": np.ones((2, 3, 4, 5), np.float32), "z": np.ones((2, 6), np.float32)}
    y, r = ort.InferenceSession(after.SerializeToString()).run(None, feeds)
    assert (y == -1).all()
    assert r.tolist() == [6, 6]


def test_a_name_becomes_another():
    found = shapes(specialise(batch="n"))
    assert found["x"][0] == found["y"][0] == found["z"][0] == "n"


def test_an_axis_without_a_name():
    assert shapes(specialise(z__1=7))["z"] == ["batch", 7]
    assert shapes(specialise(z__1="k"))["z"] == ["batch", "k"]


def test_batch_is_whatever_the_first_axis_is_called():
    text = TEXT.replace("batch", "N")
    assert shapes(specialise(text, batch=3))["y"][0] == 3


def test_a_sum_follows_from_what_is_fixed():
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[past] x, float[total] z) => (float[past] y, float[total] w) { y = Neg(x) w = Neg(z) }"""
    proto = onnx.parser.parse_model(text)
    for value in (proto.graph.input[1], proto.graph.output[1]):
        value.type.tensor_type.shape.dim[0].dim_param = "past + 1"
    result = SpecializeShapes({"past": 4}).run(Model.from_proto(proto))
    assert shapes(result.model.to_proto()) == {"x": [4], "z": [5], "y": [4], "w": [5]}


def test_a_shape_between_that_contradicts_goes():
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[batch,3] x) => (float[batch,3] y) <float[7,3] a, float[batch,3] b> { a = Relu(x) b = Abs(a) y = Neg(b) }"""
    found = shapes(specialise(text, batch=2))
    assert found.get("a", []) == []
    assert found["b"] == [2, 3]


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"bach": 1}, "no dynamic dimension is called 'bach'"),
        ({"batch": 0}, "it must be at least 1"),
        ({"batch": ""}, "an empty name"),
    ],
)
def test_what_cannot_be(dims, message):
    with pytest.raises(TensorError, match=message):
        specialise(**dims)


def test_numbers_from_a_command_line_are_sizes():
    made = make_pass("specialize-shapes", {"dims": {"batch": "2"}})
    result = made.run(Model.from_proto(onnx.parser.parse_model(TEXT)))
    assert result.model.inputs[0].shape == (2, 3, "h", "w")
    assert result.changes == 4


def test_nothing_asked_nothing_done():
    assert not SpecializeShapes().run(Model.from_proto(onnx.parser.parse_model(TEXT))).changed
