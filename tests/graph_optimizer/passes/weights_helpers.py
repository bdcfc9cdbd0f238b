"""How the tests of folding into weights run a pass: the answers must be as before, within rounding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime as ort
from algebra_helpers import model_of

from onnxsmith.graph_optimizer.passes.table import parse_pass
from onnxsmith.model import Model

_TOLERANCES = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-13}
"""Of the largest output."""


class Folded(NamedTuple):
    """What is left: the operators in order, the model, and why not."""

    left: list[str]
    model: onnx.ModelProto
    reasons: str


def some(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Random numbers."""
    return np.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape), dtype)


def norm(channels: int, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    """The parameters of a BatchNormalization: s, o, m, v."""
    names = {name: some(channels, seed=seed, dtype=dtype) for seed, name in enumerate("som", start=1)}
    return {**names, "v": np.abs(some(channels, seed=9, dtype=dtype)) + dtype(0.1)}


def fold(
    name: str,
    text: str,
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
    size: int = 3,
    ir_version: int = 8,
) -> Folded:
    """Runs a pass and compares, on random inputs, and on the same with a NaN and with an infinity among them."""
    before = model_of(text, opset, constants, ir_version)
    result = parse_pass(name).run(Model.from_proto(onnx.ModelProto.FromString(before.SerializeToString())))
    after = result.model.to_proto()
    onnx.checker.check_model(after, full_check=True)
    assert [value.name for value in after.graph.output] == [value.name for value in before.graph.output]
    left = [node.op_type for node in after.graph.node if node.op_type != "Constant"]
    assert result.changed or left == [node.op_type for node in before.graph.node if node.op_type != "Constant"]
    random = np.random.default_rng(7)
    for odd in (None, np.nan, np.inf):
        feeds = {}
        for given in before.graph.input:
            kind = given.type.tensor_type
            shape = [dim.dim_value if dim.HasField("dim_value") else size for dim in kind.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
            array = np.asarray(random.standard_normal(shape) * 3 if dtype.kind == "f" else random.integers(0, 9, shape))
            array = array.astype(dtype)
            if odd is not None and array.size and dtype.kind == "f" and given.name == "x":
                array.reshape(-1)[0] = odd
            feeds[given.name] = array
        for old, new in zip(_run(before, feeds), _run(after, feeds), strict=True):
            _same(old, new)
    return Folded(left, after, "; ".join(note.reason for note in result.notes))


def _run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[Any]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs: list[Any] = session.run(None, dict(feeds))
    return outputs


def _same(old: np.ndarray, new: np.ndarray) -> None:
    assert old.dtype == new.dtype
    assert old.shape == new.shape
    finite = np.isfinite(old)
    np.testing.assert_array_equal(old[~finite], new[~finite])
    largest = np.abs(old[finite].astype(np.float64)).max(initial=0.0)
    tolerance = _TOLERANCES.get(old.dtype.name, 0.0) * largest
    np.testing.assert_allclose(new[finite].astype(np.float64), old[finite].astype(np.float64), rtol=0, atol=tolerance)
