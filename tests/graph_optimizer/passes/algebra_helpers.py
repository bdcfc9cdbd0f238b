"""How the tests of algebra run a pass: the answers before and after must be the same, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes  # noqa: F401  (onnx gives arrays of its types)
import numpy as np
import onnx
import onnxruntime as ort
from onnx.numpy_helper import from_array

from onnxsmith.graph_optimizer.passes.base import PassResult
from onnxsmith.graph_optimizer.passes.table import parse_pass
from onnxsmith.model import Model

_ODD = (np.nan, -0.0, np.inf, 0.0, -np.inf)


def model_of(
    text: str, opset: int = 17, constants: Mapping[str, np.ndarray] | None = None, ir_version: int = 8
) -> onnx.ModelProto:
    """A model of ONNX text, `g (float[N] x) => (float[N] y) { y = Relu(x) }`, and initializers."""
    model = onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}]> {text}')
    model.graph.initializer.extend(from_array(array, name) for name, array in (constants or {}).items())
    onnx.checker.check_model(model)
    return model


def run_pass(
    name: str,
    text: str,
    opset: int = 17,
    constants: Mapping[str, np.ndarray] | None = None,
    sizes: tuple[int, ...] = (1, 3),
    signs: bool = True,
    **feeds: Any,
) -> tuple[list[str], PassResult]:
    """Runs a pass and compares, with each of `sizes` for the symbolic dimensions, the signs of zeros too if `signs`.

    Returns:
        The operators that are left, Constant left out, and the result.
    """
    before = model_of(text, opset, constants)
    result = parse_pass(name).run(Model.from_proto(before))
    after = result.model.to_proto()
    onnx.checker.check_model(after)
    for size in sizes:
        given = {**_feeds(before, size), **feeds}
        for old, new in zip(_run(before, given), _run(after, given), strict=True):
            _same(old, new, signs=signs)
    return [node.op_type for node in after.graph.node if node.op_type != "Constant"], result


def left(name: str, text: str, *args: Any, **kwargs: Any) -> list[str]:
    """The operators that a pass leaves."""
    return run_pass(name, text, *args, **kwargs)[0]


def reasons(result: PassResult) -> str:
    """Why not, all of it."""
    return "; ".join(note.reason for note in result.notes)


def _feeds(model: onnx.ModelProto, size: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(size)
    made = {}
    for given in model.graph.input:
        kind = given.type.tensor_type
        shape = [dim.dim_value if dim.HasField("dim_value") else size for dim in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        array = np.asarray(random.standard_normal(shape) * 3).astype(dtype)
        if dtype.kind == "f" and array.size:
            count = min(array.size, len(_ODD))
            array.reshape(-1)[:count] = _ODD[:count]
        made[given.name] = array
    return made


def _run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[Any]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs: list[Any] = session.run(None, dict(feeds))
    return outputs


def _same(old: Any, new: Any, *, signs: bool) -> None:
    assert old.dtype == new.dtype
    assert old.shape == new.shape
    np.testing.assert_array_equal(old, new)
    if old.dtype.kind == "f" and signs:
        np.testing.assert_array_equal(np.signbit(old[~np.isnan(old)]), np.signbit(new[~np.isnan(new)]))
