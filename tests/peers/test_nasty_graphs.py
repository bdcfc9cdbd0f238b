"""Graphs on which optimisers fall: whatever an outside one does with them, the result computes what the model did."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

import onnxsmith
from onnxsmith.cli.main import app

TOOLS = {
    "onnxsim": "onnxsim",
    "onnxslim": "onnxslim",
    "onnxoptimizer": "onnxoptimizer",
    "onnxscript": "onnxscript",
    "ort-level": "onnxruntime",
    "ort-level{level=ORT_ENABLE_EXTENDED}": "onnxruntime",
    "ort-transformers": "onnxruntime",
}

TEXTS = {
    "two_random_values_that_look_equal": """
        main (float[64] x) => (float[64] y) {
            a = RandomUniformLike <low = 0.0, high = 1.0> (x)
            b = RandomUniformLike <low = 0.0, high = 1.0> (x)
            d = Sub(a, b)
            y = Add(x, d)
        }
    """,
    "a_random_constant": """
        main (float[8] x) => (float[8] y) { r = RandomUniform <shape = [8]> ()  y = Mul(x, r) }
    """,
    "dropout_while_training": """
        main (float[64] x) => (float[64] y) <float ratio = {0.5}, bool training = {1}> {
            i = Identity(x)
            y = Dropout(i, ratio, training)
        }
    """,
    "subtracting_zero_broadcasts": """
        main (float[3] x) => (float[2, 3] y) <float[2, 1] zero = {0, 0}> { y = Sub(x, zero) }
    """,
    "dividing_by_one_of_another_rank": """
        main (int32[3] x) => (int32[1, 3] y) <int32[1, 1] one = {1}> { y = Div(x, one) }
    """,
    "an_overridable_shape": """
        main (float[6] x, int64[2] s) => (float[a, b] y) <int64[2] s = {2, 3}> {
            t = Identity(s)
            y = Reshape(x, t)
        }
    """,
    "an_overridable_scale_of_batch_norm": """
        main (float[1, 2, 3, 3] x, float[2] s) => (float[1, 2, 3, 3] y)
        <float[2, 2, 1, 1] w = {1, 2, 3, 4}, float[2] s = {2, 3}, float[2] b = {0, 1}, float[2] v = {1, 4}> {
            c = Conv(x, w)
            y = BatchNormalization(c, s, b, b, v)
        }
    """,
    "one_value_is_two_outputs": """
        main (float[2] x) => (float[2] y, float[2] z, float[2] u) {
            a = Relu(x)
            y = Identity(a)
            z = Identity(a)
            u = Identity(x)
        }
    """,
    "an_output_in_the_middle": """
        main (float[1, 1, 4, 4] x) => (float[1, 1, 4, 4] y, float[1, 1, 4, 4] c)
        <float[1, 1, 1, 1] w = {2}, float[1] s = {3}, float[1] b = {1}, float[1] m = {0.5}, float[1] v = {2}> {
            c = Conv(x, w)
            y = BatchNormalization(c, s, b, m, v)
        }
    """,
    "shared_weights_under_one_batch_norm": """
        main (float[1, 1, 4, 4] x) => (float[1, 1, 4, 4] y)
        <float[1, 1, 1, 1] w = {2}, float[1] s = {3}, float[1] b = {1}, float[1] m = {0.5}, float[1] v = {2}> {
            c = Conv(x, w)
            n = BatchNormalization(c, s, b, m, v)
            d = Conv(n, w)
            y = Add(d, c)
        }
    """,
    "a_constant_that_explodes": """
        main (float[1] x) => (float[2048, 2048] y) <int64[2] s = {2048, 2048}> {
            c = ConstantOfShape <value = float[1] {2}> (s)
            y = Add(x, c)
        }
    """,
    "an_if_that_is_known": """
        main (float[2] x) => (float[2] y) <bool yes = {1}, float[2] k = {1, 2}> {
            a = Relu(x)
            y = If (yes) <
                then_branch = then_graph () => (float[2] t) { t = Add(a, k) },
                else_branch = else_graph () => (float[2] e) { e = Sub(a, k) }
            >
        }
    """,
    "a_loop_that_uses_what_is_outside": """
        main (float[2] x) => (float[2] y) <int64 n = {3}, bool yes = {1}, float[2] k = {1, 2}> {
            y = Loop (n, yes, x) <
                body = body_graph (int64 i, bool c, float[2] s) => (bool d, float[2] t) {
                    d = Identity(c)
                    t = Mul(s, k)
                }
            >
        }
    """,
    "bounds_of_clip_the_wrong_way_round": """
        main (float[8] x) => (float[8] y) <float low = {1}, float high = {-1}, float zero = {0}> {
            r = Clip(x, low, high)
            y = Clip(r, zero)
        }
    """,
    "an_input_that_nothing_uses": """
        main (float[N, 2] x, float[N] unused) => (float[N, 2] y) { i = Identity(x)  y = Relu(i) }
    """,
    "a_sequence": """
        main (float[2] x) => (float[4] y) <float[2] k = {1, 2}> {
            i = Identity(k)
            s = SequenceConstruct(x, i)
            y = ConcatFromSequence <axis = 0> (s)
        }
    """,
    "slices_backwards": """
        main (float[N, 6] x) => (float[N, 3] y)
        <int64[1] a = {-1}, int64[1] b = {-100}, int64[1] axis = {1}, int64[1] back = {-2}> {
            i = Identity(x)
            y = Slice(i, a, b, axis, back)
        }
    """,
    "a_function_with_an_attribute": """
        <ir_version: 8, opset_import: ["": 17, "own": 1]>
        main (float[4] x) => (float[4] y) { a = own.leak <slope = 0.5> (x)  y = own.leak <slope = 0.1> (a) }
        <domain: "own", opset_import: ["": 17]>
        leak <slope> (v) => (u) { u = LeakyRelu <alpha: float = @slope> (v) }
    """,
}


def strings():
    words = numpy_helper.from_array(np.array(["a", "b"], dtype=object), "words")
    graph = helper.make_graph(
        [helper.make_node("Identity", ["words"], ["i"]), helper.make_node("Gather", ["i", "x"], ["y"])],
        "main",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [3])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [3])],
        [words],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def quantised_weights():
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.integers(-127, 127, (32, 32)).astype(np.int8), "q"),
        numpy_helper.from_array(np.full(32, 0.01, np.float32), "scale"),
        numpy_helper.from_array(np.zeros(32, np.int8), "zero"),
    ]
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["w"], axis=1),
            helper.make_node("MatMul", ["x", "w"], ["y"]),
        ],
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


BUILT = {"strings": strings, "quantised_weights": quantised_weights}
RANDOM = {"two_random_values_that_look_equal", "a_random_constant", "dropout_while_training"}


@pytest.fixture
def nasty(build_model, write_model):
    def build(name):
        message = BUILT[name]() if name in BUILT else build_model(TEXTS[name])
        message.doc_string, message.producer_name, message.model_version = "about it", "trainer", 3
        message.metadata_props.add(key="author", value="someone")
        return write_model(message)

    return build


def session(path):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feeds_of(model, seed, *, nan):
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in model.get_inputs():
        shape = [size if isinstance(size, int) else 2 for size in value.shape]
        if value.type == "tensor(float)":
            feeds[value.name] = rng.standard_normal(shape).astype(np.float32)
            if nan:
                feeds[value.name].flat[0] = np.nan
        else:
            feeds[value.name] = rng.integers(0, 2, shape).astype(np.int32 if "int32" in value.type else np.int64)
    return feeds


def overrides(message):
    """Other values for the initializers that a caller can override."""
    inputs = {value.name for value in message.graph.input}
    changed = {
        tensor.name: numpy_helper.to_array(tensor)[::-1].copy()
        for tensor in message.graph.initializer
        if tensor.name in inputs
    }
    return [{}, changed] if changed else [{}]


@pytest.mark.peers
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", [*TEXTS, *BUILT])
def test_the_result_computes_the_same(nasty, tmp_path, name, tool):
    if importlib.util.find_spec(TOOLS[tool]) is None:
        pytest.skip(f"{TOOLS[tool]} is not installed (pip install 'onnxsmith[peers]')")
    path, out = nasty(name), tmp_path / "out.onnx"
    report = onnxsmith.optimize(path, out, passes=[tool], max_size_ratio=2000)
    print(f"{tool}: {[gone.reason for gone in report.rolled_back] or [step.changes for step in report.steps]}")
    before, after = onnx.load(path), onnx.load(out)
    onnx.checker.check_model(after)
    assert after.graph.input == before.graph.input
    assert after.graph.output == before.graph.output
    for field in ("doc_string", "producer_name", "model_version", "metadata_props", "ir_version"):
        assert getattr(after, field) == getattr(before, field)
    assert Path(out).stat().st_size < path.stat().st_size + (2 << 20)
    if name in RANDOM:
        kinds = ("Dropout", "RandomUniform", "RandomUniformLike")
        assert [node.op_type for node in after.graph.node if node.op_type in kinds] == [
            node.op_type for node in before.graph.node if node.op_type in kinds
        ]
        return
    original, optimised = session(path), session(out)
    for extra in overrides(before):
        for seed in (0, 1):
            for nan in (False, True):
                feeds = {**feeds_of(original, seed, nan=nan), **extra}
                for left, right in zip(original.run(None, feeds), optimised.run(None, feeds), strict=True):
                    assert np.asarray(left).dtype == np.asarray(right).dtype
                    if np.asarray(left).dtype.kind == "f":
                        np.testing.assert_allclose(right, left, rtol=1e-5, atol=1e-6)
                    else:
                        np.testing.assert_array_equal(right, left)


@pytest.mark.peers
def test_the_command_line_reports_what_was_rolled_back(nasty, tmp_path):
    arguments = ["optimize", str(nasty("a_random_constant")), "-o", str(tmp_path / "out.onnx"), "--passes"]
    done = CliRunner().invoke(app, [*arguments, "onnxslim,ort-level", "--output-format", "json"])
    assert done.exit_code == 0, done.output
    (rollback, *_) = json.loads(done.stdout)["rolled_back"]
    installed = importlib.util.find_spec("onnxslim") is not None
    expected = (
        "it folded or merged the random operator RandomUniform" if installed else "pip install 'onnxsmith[peers]'"
    )
    assert rollback["name"] == "onnxslim"
    assert expected in rollback["reason"]
