"""Runs a pass over a small model, and the model before and after it in ONNX Runtime with optimisation off."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime as ort

from onnxsmith.graph_optimizer.passes.base import Pass, PassResult
from onnxsmith.model import Model


def parse(graph: str, opset: int) -> onnx.ModelProto:
    """A model from the text of a graph."""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]>\n{graph}')


def run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


def recognize(
    given: Pass, model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], tolerance: float = 1e-5, check: bool = True
) -> tuple[list[str], PassResult]:
    """The operators after a pass, and its result; the outputs must be as before, within `tolerance` of their range."""
    expected = run(model, feeds)
    result = given.run(Model.from_proto(model))
    after = result.model.to_proto()
    if check:
        onnx.checker.check_model(after, full_check=True)
    for before, now in zip(expected, run(after, feeds), strict=True):
        assert now.dtype == before.dtype
        finite = before[np.isfinite(before)].astype(np.float64)
        limit = tolerance * (np.abs(finite).max() if finite.size else 0)
        np.testing.assert_allclose(now.astype(np.float64), before.astype(np.float64), rtol=0, atol=limit)
    return [node.op_type for node in after.graph.node if node.op_type != "Constant"], result


def reasons(result: PassResult) -> list[str]:
    """Why rules that matched did not apply."""
    return [note.reason for note in result.notes]
