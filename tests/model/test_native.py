from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxsmith.config import LimitsConfig
from onnxsmith.errors import ChildCrashError, ChildTimeoutError, InvalidModelError
from onnxsmith.model import Model, analyse_native, checking, native
from onnxsmith.model.native import _check_and_infer, _merge


@pytest.fixture
def analysed(write_model):
    """Analyses a model without a child process."""

    def analyse(proto):
        path = write_model(proto)
        problem, inference_error, inferred = _check_and_infer(path)
        assert problem is None, problem
        return _merge(Model.load(path), inferred, inference_error)

    return analyse


# ---- graphs that break a rule

RELU = "g (float[1] x) => (float[1] y) { y = Relu(x) }"
FUNCTION = '<ir_version: 10, opset_import: ["": 21, "l": 1]>'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("g (float[1] x) => (float[1] y) { a = Add(x, b)  b = Add(x, a)  y = Add(a, b) }", "topologically sorted.*'b'"),
        ("g (float[1] x) => (float[1] y) { y = Add(x, z) }", "topologically sorted.*'z'"),
        ("g (float[1] x) => (float[1] y) { y = Frobnicate(x) }", "No Op registered for Frobnicate"),
        ("g (float[1] x) => (float[1] y) { z = Relu(x) }", "output 'y' is not an output of any node"),
        ("g (float[1] x, float[1] x) => (float[1] y) { y = Relu(x) }", "single static assignment.*'x'.*graph input"),
        ("g (float[1] x) => (float[1] y) { y = Add(x) }", r"Add:14\) has input size 1 not in range"),
        ("g (float[1] x) => (float[1] y) { y = Relu(x, x) }", "has input size 2 not in range"),
        ('g (float[1] x) => (float[1] y) { y = Softmax<axis = "a">(x) }', "Mismatched attribute type.*axis"),
        ("g (float[1] x) => (float[1] y) { y = Softmax<axes = 1>(x) }", "Unrecognized attribute: axes"),
        ("g (float[1] x) => (float[1] y) { y = Concat(x, x) }", "Required attribute 'axis' is missing"),
        ("g (float[1] x) => (float[1] y) { y = unknown.Op(x) }", "No opset import for domain 'unknown'"),
        ('<ir_version: 10, opset_import: ["a": 1]>' + RELU, "No opset import for domain ''"),
        ('<ir_version: 99, opset_import: ["": 21]>' + RELU, "ir_version 99 is higher"),
        (
            f'{FUNCTION} g (float[1] x) => (float[1] y) {{ y = l.f(x) }} '
            '<domain: "l", opset_import: ["": 21, "l": 1]> f (a) => (b) { b = l.f(a) }',
            "must not be recursive",
        ),
        (
            f'{FUNCTION} g (float[1] x) => (float[1] y) {{ y = l.f(x) }} '
            '<domain: "l", opset_import: ["": 21, "l": 1]> f (a) => (b) { b = l.h(a) } '
            '<domain: "l", opset_import: ["": 21, "l": 1]> h (a) => (b) { b = l.f(a) }',
            "must not be recursive",
        ),
    ],
)  # fmt: skip
def test_invalid_graph(write_model, text, reason):
    path = write_model(text)
    Model.load(path)
    problem, _, inferred = _check_and_infer(path)
    assert problem is not None
    assert inferred == []
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(problem)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("g (float[1] x) => (float[1] y) { y = Relu(x)  y = Abs(x) }", "Output 'y' is redeclared"),
        ("g (float[1] x) => (float[1] y) <float[1] y = {1}> { y = Relu(x) }", "Output 'y' is redeclared"),
        ("g (float[1] x) => (float[1] y) { x = Relu(x)  y = Abs(x) }", "Output 'x' is redeclared"),
    ],
)
def test_a_name_taken_twice_is_refused_at_once(write_model, text, reason):
    path = write_model(text)
    with pytest.raises(InvalidModelError, match=f"the graph cannot be read: {reason}"):
        Model.load(path)


def test_no_opset_at_all(write_model, build_model):
    proto = build_model("g (float[1] x) => (float[1] y) { y = Relu(x) }")
    del proto.opset_import[:]
    assert "opset_import" in str(_check_and_infer(write_model(proto))[0])


def test_the_error_names_the_file_and_the_reason(write_model):
    path = write_model("g (float[1] x) => (float[1] y) { y = Frobnicate(x) }")
    with pytest.raises(InvalidModelError) as caught:
        analyse_native(Model.load(path))
    assert caught.value.message.startswith(f"{path}: not a valid model: No Op registered for Frobnicate")
    assert caught.value.exit_code == 1


def test_a_model_without_a_file_is_named_by_its_graph(build_model):
    with pytest.raises(InvalidModelError, match=r"^net: not a valid model: No Op registered for Frobnicate"):
        analyse_native(Model.from_proto(build_model("net (float[1] x) => (float[1] y) { y = Frobnicate(x) }")))


# ---- shapes


def test_shapes_of_every_graph(write_model):
    path = write_model(
        """g (float[batch, 4] x, bool c) => (float[?, ?] y) <float[4, 3] w = {0,1,2,3,4,5,6,7,8,9,10,11}>
        { a = MatMul(x, w)
          y = If(c) <then_branch = t () => (float[?, ?] o) { b = Relu(a)  o = Neg(b) },
                     else_branch = e () => (float[?, ?] o) { o = Abs(a) }> }"""
    )
    analysis = analyse_native(Model.load(path))
    assert analysis.shapes[0] == {"x": ("batch", 4), "c": (), "w": (4, 3), "a": ("batch", 3), "y": ("batch", 3)}
    assert analysis.shapes[1] == {"b": ("batch", 3), "o": ("batch", 3)}
    assert analysis.shapes[2] == {"o": ("batch", 3)}
    assert analysis.declared[0] == {"x": ("batch", 4), "c": (), "w": (4, 3), "y": (None, None)}
    assert analysis.dtypes[0] == {"x": "float32", "c": "bool", "w": "float32", "a": "float32", "y": "float32"}
    assert analysis.conflicts == ()
    assert analysis.inference_error is None


def test_inference_wins_over_a_wrong_declaration(analysed):
    analysis = analysed("g (float[2, 4] x) => (float[2, 3] y) <float[7, 9] a> { a = Relu(x)  y = Neg(a) }")
    assert analysis.shapes[0] == {"x": (2, 4), "a": (2, 4), "y": (2, 4)}
    assert analysis.declared[0] == {"x": (2, 4), "a": (7, 9), "y": (2, 3)}
    assert set(analysis.conflicts) == {
        "'a' is declared [7, 9] and inferred [2, 4]",
        "'y' is declared [2, 3] and inferred [2, 4]",
    }


def test_a_wrong_rank_is_a_conflict(analysed):
    analysis = analysed("g (float[2, 4] x) => (float[8] y) { y = Relu(x) }")
    assert analysis.conflicts == ("'y' is declared [8] and inferred [2, 4]",)


def test_declared_sizes_and_names_fill_what_inference_leaves_open(analysed):
    analysis = analysed("g (float[n, 4] x, int64[2] s) => (float[batch, 3] y) { y = Reshape(x, s) }")
    assert analysis.shapes[0]["y"] == ("batch", 3)
    assert analysis.conflicts == ()


def test_declarations_help_behind_an_unknown_operator(analysed):
    analysis = analysed(
        "g (float[2, 4] x) => (float[a, b] y) <float[5, 6] m> { m = custom.Anything(x)  n = Relu(m)  y = Transpose(n) }"
    )
    assert analysis.shapes[0] == {"x": (2, 4), "m": (5, 6), "n": (5, 6), "y": (6, 5)}


def test_small_external_tensors_are_known_to_inference(write_model, build_model):
    shape = numpy_helper.from_array(np.array([3, 2], np.int64), "s")
    proto = build_model("g (float[2, 3] x) => (float[a, b] y) { y = Reshape(x, s) }", shape)
    options = {"save_as_external_data": True, "location": "s.bin", "size_threshold": 0}
    model = Model.load(write_model(proto, **options))
    assert len(model.external_files) == 1
    assert analyse_native(model).shapes[0]["y"] == (3, 2)
    assert analyse_native(Model(model.ir)).shapes[0]["y"] == (3, 2)


@pytest.mark.parametrize("external", [True, False])
def test_large_weights_are_left_out(write_model, build_model, external, monkeypatch):
    seen = []
    check = onnx.checker.check_model
    monkeypatch.setattr(onnx.checker, "check_model", lambda proto: seen.append(proto.ByteSize()) or check(proto))
    weight = numpy_helper.from_array(np.zeros((512, 512), np.float32), "w")
    proto = build_model("g (float[n, 512] x) => (float[n, 512] y) { y = MatMul(x, w) }", weight)
    options = {"save_as_external_data": True, "location": "w.bin"} if external else {}
    path = write_model(proto, **options)
    assert _check_and_infer(path)[0] is None
    assert _check_and_infer(Model(Model.load(path).ir).frame().SerializeToString())[0] is None
    assert max(seen) < 1000


def test_inputs_and_outputs_of_unknown_rank_are_allowed(analysed):
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        ),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    analysis = analysed(proto)
    assert analysis.shapes[0] == {}
    assert analysis.dtypes[0] == {"x": "float32", "y": "float32"}


def test_operators_of_onnx_runtime_in_the_default_domain(analysed):
    text = """<ir_version: 8, opset_import: ["": 13]>
    g (float[2, 4] x) => (float[2, 4] y) <float[4] s = {1, 1, 1, 1}>
    { a = LayerNormalization(x, s)  b = SimplifiedLayerNormalization(a, s)  y = Relu(b) }"""
    assert analysed(text).inference_error is None
    with pytest.raises(AssertionError, match="No Op registered for Frobnicate"):
        analysed(text.replace("y = Relu(b)", "y = Frobnicate(b)"))


def test_model_that_crashes_shape_inference(write_model):
    # With data propagation, ONNX's shape inference dies of a step this large, and the model is valid.
    path = write_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[20] x) => (float[n] y)
        <int64[1] a = {2}, int64[1] b = {18}, int64[1] c = {0}, int64[1] d = {2},
         int64[1] a2 = {1}, int64[1] b2 = {7}, int64[1] d2 = {3506438147}>
        { s = Slice(x, a, b, c, d)  y = Slice(s, a2, b2, c, d2) }"""
    )
    analysis = analyse_native(Model.load(path))
    assert analysis.shapes[0]["x"] == (20,)
    if analysis.inference_error is not None:  # a later ONNX may have mended it
        assert "crashed in the child process (SIGSEGV)" in analysis.inference_error


def test_checker_that_crashes(write_model, monkeypatch):
    model = Model.load(write_model("g (float[1] x) => (float[1] y) { y = Relu(x) }"))

    def crash(function, *args, what, **kwargs):
        raise ChildCrashError(f"{what}: native code crashed in the child process (SIGSEGV).")

    monkeypatch.setattr(native, "run_supervised", crash)
    monkeypatch.setattr(checking, "run_supervised", crash)
    with pytest.raises(ChildCrashError, match=r"checking .*model\.onnx: native code crashed"):
        analyse_native(model)


def test_limits_hold(write_model):
    model = Model.load(write_model("g (float[1] x) => (float[1] y) { y = Relu(x) }"))
    with pytest.raises(ChildTimeoutError, match=r"checking .*model\.onnx ran past its limit of 0.01 s"):
        analyse_native(model, LimitsConfig(timeout_s=0.01))
