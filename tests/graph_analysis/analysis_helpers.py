"""What the analysis tests make models with."""

from __future__ import annotations

import numpy as np
import onnx
from onnx.numpy_helper import from_array

from onnxsmith.model import Model, NativeAnalysis
from onnxsmith.model.native import _check_and_infer, _merge


def weights(**shapes: tuple[int, ...]) -> list[onnx.TensorProto]:
    """Float32 initializers of ones, by name and shape."""
    return [from_array(np.ones(shape, np.float32), name) for name, shape in shapes.items()]


def analysed(model: Model) -> NativeAnalysis:
    """What `analyse_native` says, without its child process."""
    problem, inference_error, inferred = _check_and_infer(model.to_proto().SerializeToString())
    assert problem is None, problem
    return _merge(model, inferred, inference_error)
