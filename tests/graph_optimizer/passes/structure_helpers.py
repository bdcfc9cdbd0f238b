"""How the tests of passes over structure run one: the interface and every output must be as before, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime as ort

from onnxsmith.graph_optimizer.passes.base import Pass, PassResult
from onnxsmith.model import Model

OPSET_21 = '<ir_version: 10, opset_import: ["": 21]>'

Feeds = Mapping[str, np.ndarray]


def apply(step: Pass, model: str | onnx.ModelProto, feeds: Feeds, header: str = OPSET_21) -> PassResult:
    """Runs a pass on a model, given as a message or as the text of a graph, and compares."""
    before = onnx.parser.parse_model(header + model) if isinstance(model, str) else model
    result = step.run(Model.from_proto(onnx.ModelProto.FromString(before.SerializeToString())))
    after = result.model.to_proto()
    onnx.checker.check_model(after, full_check=True)
    assert list(after.graph.input) == list(before.graph.input)
    assert list(after.graph.output) == list(before.graph.output)
    for old, new in zip(run(before, feeds), run(after, feeds), strict=True):
        assert old.dtype == new.dtype
        np.testing.assert_array_equal(new, old)
        if old.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(new), np.signbit(old))
    return result


def run(model: onnx.ModelProto, feeds: Feeds, *, optimised: bool = False) -> list[np.ndarray]:
    """The outputs of a model."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return list(ort.InferenceSession(model.SerializeToString(), options).run(None, dict(feeds)))


def op_types(result: PassResult) -> list[str]:
    """The operators that are left, Constant left out."""
    return [node.op_type for node in result.model.nodes() if node.op_type != "Constant"]


def reasons(result: PassResult) -> list[str]:
    """Why something was declined."""
    return [note.reason for note in result.notes]
