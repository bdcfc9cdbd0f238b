"""The checker in its own process, which does without most of the onnx package."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnxsmith.errors import InvalidModelError
from onnxsmith.model import Model, check_native
from onnxsmith.model.external_data import embed
from onnxsmith.model.native_check import complaint, read

CHILD = """
import sys
from pathlib import Path
from onnxsmith.model.quick_check import check
print(check(Path(sys.argv[1]), progress=None))
print("numpy" in sys.modules)
"""


def in_child(path):
    done = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()


def test_a_valid_model_is_checked_without_numpy(write_model):
    assert in_child(write_model("g (float[1] x) => (float[1] y) { y = Relu(x) }")) == ["None", "False"]


@pytest.mark.parametrize("body", ["y = Frobnicate(x)", "y = Relu<alpha = 1.0>(x)", "y = Add(x, z)"])
def test_the_complaint_is_the_checkers_own(write_model, body):
    path = write_model(f"g (float[1] x) => (float[1] y) {{ {body} }}")
    said = in_child(path)[0]
    assert said == complaint(read(path))
    with pytest.raises(InvalidModelError, match="not a valid model"):
        check_native(Model.load(path))


def test_what_needs_all_of_onnx_gets_it(tmp_path):
    values = helper.make_tensor("s", TensorProto.FLOAT, [2], np.array([1.0, 2.0], np.float32).tobytes(), raw=True)
    indices = helper.make_tensor("i", TensorProto.INT64, [2], [0, 2])
    (tmp_path / "values.bin").write_bytes(values.raw_data)
    values.ClearField("raw_data")
    values.data_location = TensorProto.EXTERNAL
    values.external_data.add(key="location", value="values.bin")
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        sparse_initializer=[helper.make_sparse_tensor(values, indices, [4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "sparse.onnx"
    path.write_bytes(model.SerializeToString())
    assert in_child(path)[0] == str(complaint(read(path)))
    embed(values, tmp_path)
    assert onnx.numpy_helper.to_array(values).tolist() == [1.0, 2.0]
