"""Each outside optimiser on a small model with something for it to do."""

from __future__ import annotations

import importlib.util

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from onnxsmith.errors import MissingExtraError, PassError
from onnxsmith.graph_optimizer.editor import PROVENANCE
from onnxsmith.graph_optimizer.pass_pipeline import PassPipeline, Stage
from onnxsmith.graph_optimizer.passes.table import make_pass, parse_pass
from onnxsmith.model import Model


def needs(module):
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"{module} is not installed (pip install 'onnxsmith[peers]')")


PEERS = [pytest.param(name, marks=needs(name)) for name in ("onnxsim", "onnxslim", "onnxoptimizer")]
OWN_DEPENDENCIES = ["onnxscript", "ort-level"]

CONSTANTS = """
    main (float[N, 2] x) => (float[N, 2] y)
    <float[2] a = {1, 2}, float[2] b = {3, 4}> {
        i = Identity(x)
        c = Add(a, b)
        [kept] y = Mul(i, c)
    }
"""
GELU = """
    <ir_version: 8, opset_import: ["": 17]>
    main (float[N, 8] x) => (float[N, 8] y)
    <float root = {1.4142135}, float one = {1}, float half = {0.5}> {
        d = Div(x, root)
        e = Erf(d)
        s = Add(e, one)
        m = Mul(x, s)
        y = Mul(m, half)
    }
"""


def outputs(model, x):
    message = model if isinstance(model, onnx.ModelProto) else model.to_proto()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(message.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


def run(message, step):
    copy = onnx.ModelProto.FromString(message.SerializeToString())
    return PassPipeline([Stage((step,))]).run(lambda: Model.from_proto(copy))


def op_types(model):
    return [node.op_type for node in model.nodes() if node.op_type != "Constant"]


@pytest.mark.parametrize("name", [*PEERS[:2], *OWN_DEPENDENCIES])
def test_constants_are_folded(build_model, name):
    message = build_model(CONSTANTS)
    result = run(message, make_pass(name))
    assert result.rolled_back == ()
    assert op_types(result.model) == ["Mul"]
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(outputs(result.model, x)[0], x * np.float32([4, 6]))
    assert result.steps[0].name == name
    assert result.model.opset == 21


@pytest.mark.parametrize("name", PEERS[2:])
def test_identities_go(build_model, name):
    message = build_model(CONSTANTS)
    result = run(message, make_pass(name, {"passes": "eliminate_identity"}))
    assert result.rolled_back == ()
    assert op_types(result.model) == ["Add", "Mul"]
    x = np.ones((1, 2), np.float32)
    np.testing.assert_array_equal(outputs(result.model, x), outputs(message, x))


@pytest.mark.parametrize("name", [*PEERS, *OWN_DEPENDENCIES, "ort-transformers"])
def test_nothing_to_do(build_model, name):
    message = build_model("main (float[2] x) => (float[2] y) { y = Relu(x) }")
    result = run(message, make_pass(name))
    assert (result.rolled_back, result.steps) == ((), ())


@pytest.mark.parametrize("text", ["ort-level{level=ORT_ENABLE_EXTENDED}", "ort-transformers{model_type=bert}"])
def test_operators_of_onnx_runtime(build_model, text):
    message = build_model(GELU)
    result = run(message, parse_pass(text))
    assert result.rolled_back == ()
    assert op_types(result.model) == ["Gelu"]
    (note,) = result.notes
    assert (note.op_type, note.reason) == (
        "Gelu",
        "is not an operator of ONNX: only a runtime that has it runs the model",
    )
    (node,) = result.model.nodes()
    assert node.metadata_props[PROVENANCE] == text.partition("{")[0]
    x = np.linspace(-3, 3, 16, dtype=np.float32).reshape(2, 8)
    np.testing.assert_allclose(outputs(result.model, x)[0], outputs(message, x)[0], atol=1e-6)


@pytest.mark.parametrize("name", OWN_DEPENDENCIES)
def test_external_data(build_model, write_model, name):
    message = build_model("main (float[4096] x) => (float[4096] y) { i = Identity(x)  y = Add(i, w) }")
    message.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(4096, dtype=np.float32), "w"))
    path = write_model(message, save_as_external_data=True, location="model.onnx.data")
    model = Model.load(path)
    result = make_pass(name).run(model)
    assert op_types(result.model) == ["Add"]
    saved = result.model.save(path.with_name("out.onnx"))
    session = ort.InferenceSession(saved, providers=["CPUExecutionProvider"])
    x = np.ones(4096, np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x + np.arange(4096))


@pytest.mark.parametrize("text", ["ort-level{level=99}", "ort-transformers{model_type=bort}", "onnxsim{speed=1}"])
def test_options_are_checked(text):
    with pytest.raises(PassError, match="option"):
        parse_pass(text)


def test_a_package_that_is_missing_is_named(build_model, monkeypatch):
    """The child has the parent's search path: where that leads to no onnxsim, there is none."""
    import onnxsmith.graph_optimizer.adapters.onnxsim as adapter
    from onnxsmith import extras

    monkeypatch.setattr(adapter, "require", extras.require)
    monkeypatch.setattr(extras.importlib, "import_module", _nothing_found)
    with pytest.raises(MissingExtraError, match="onnxsim is needed for the pass onnxsim, and it is not installed"):
        adapter.simplify("in", "out", perform_optimization=True, skip_fuse_bn=False, include_subgraph=False)


def _nothing_found(name):
    raise ModuleNotFoundError(f"No module named '{name}'", name=name)
