"""What folds, what stays, what it costs, and that every answer is as it was."""

from __future__ import annotations

import importlib

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import from_array
from structure_helpers import OPSET_21, apply, op_types, reasons

from onnxsmith.errors import InternalError, OnnxsmithError
from onnxsmith.graph_optimizer import ConstantFolder
from onnxsmith.graph_optimizer.folding import FoldingState
from onnxsmith.graph_optimizer.passes.fold_constants import FoldConstants
from onnxsmith.model import Model
from onnxsmith.process import Supervised
from onnxsmith.records import no_progress

X = np.array([[1, -2, 3]], np.float32)


@pytest.fixture(autouse=True)
def children(monkeypatch):
    """Runs here what would run in a child, and counts how often."""
    calls = []

    def call(function, *args, limits, what):
        calls.append(what)
        module, name = function.split(":")
        try:
            value = getattr(importlib.import_module(module), name)(*args, progress=no_progress)
        except OnnxsmithError:
            raise
        except Exception as error:
            raise InternalError(str(error)) from error
        return Supervised(value, "", None)

    monkeypatch.setattr("onnxsmith.graph_optimizer.evaluation.run_supervised", call)
    return calls


def build(text: str, header: str = OPSET_21, **constants: np.ndarray) -> onnx.ModelProto:
    model = onnx.parser.parse_model(header + text)
    model.graph.initializer.extend(from_array(array, name) for name, array in constants.items())
    return model


def fold(text: str, feeds=None, header: str = OPSET_21, step: FoldConstants | None = None, **constants: np.ndarray):
    return apply(step or FoldConstants(), build(text, header, **constants), {"x": X} if feeds is None else feeds)


def test_a_chain_folds_and_what_it_was_made_of_goes():
    result = fold(
        "g (float[1,3] x) => (float[1,3] y) { a = Neg(w) b = Abs(a) y = Add(x, b) }", w=np.ones((1, 3), np.float32)
    )
    assert op_types(result) == ["Add"]
    assert len(result.model.ir.graph.initializers) == 1
    assert result.changes == 2


def test_one_value_that_two_nodes_need_is_one_constant():
    result = fold(
        "g (float[1,3] x) => (float[1,3] y) { a = Neg(w) b = Add(x, a) y = Mul(b, a) }", w=np.ones(3, np.float32)
    )
    assert op_types(result) == ["Add", "Mul"]
    assert len(result.model.ir.graph.initializers) == 1


def test_an_output_becomes_a_constant_of_its_name():
    result = fold("g (float[1,3] x) => (float[1,3] y, float[2] n) { n = Neg(w) y = Neg(x) }", w=np.ones(2, np.float32))
    assert op_types(result) == ["Neg"]


def test_constant_nodes_become_initializers_where_the_model_allows_it():
    text = """g (float[1,3] x) => (float[1,3] y, float[2] z) {
        c = Constant<value_floats = [1.0, 2.0, 3.0]>() z = Constant<value_floats = [4.0, 5.0]>() y = Add(x, c) }"""
    result = fold(text)
    assert [node.op_type for node in result.model.nodes()] == ["Constant", "Add"]
    assert list(result.model.ir.graph.initializers) == ["c"]
    result = fold(text, header='<ir_version: 3, opset_import: ["": 13]>')
    assert [node.op_type for node in result.model.nodes()] == ["Constant", "Constant", "Add"]


def test_a_constant_in_a_branch_stays_in_it():
    result = fold(
        """g (float[1,3] x, bool c) => (float[1,3] y) {
            y = If(c) <then_branch = a () => (float[1,3] p) {
                           k = Constant<value_floats = [1.0, 2.0, 3.0]>() n = Neg(k) p = Add(x, n) },
                       else_branch = b () => (float[1,3] q) { q = Constant<value = float[1,3] {7, 8, 9}>() }> }""",
        {"x": X, "c": np.array(True)},
    )
    then, other = (graph for place, graph in result.model.graphs() if place)
    assert ([node.op_type for node in then], [node.op_type for node in other]) == (["Add"], ["Constant"])
    assert len(then.initializers) == 1
    assert not other.initializers


def test_sizes_that_are_known_fold_though_their_input_varies():
    result = fold(
        """g (float[N,3] x) => (float[N,3] y, int64 r) {
            s = Shape(x) one = Constant<value_int = 1>() c = Gather(s, one) f = Cast<to = 1>(c) y = Mul(x, f)
            zero = Constant<value_int = 0>() r = Gather(s, zero) }"""
    )
    assert op_types(result) == ["Shape", "Mul", "Gather"]


def test_of_what_a_castlike_is_like_only_the_type_matters():
    result = fold(
        "g (float[1,3] x) => (float[1,3] y) { c = CastLike(k, x) s = Sqrt(c) y = Mul(x, s) }", k=np.array(4, np.int64)
    )
    assert op_types(result) == ["Mul"]


def test_nothing_random_folds():
    result = FoldConstants().run(
        Model.from_proto(
            build(
                """g (float[1,3] x) => (float[3] y, float[3] z) {
                    y = RandomUniformLike(w) d = Dropout(w, half, yes) z = Bernoulli(w) }""",
                w=np.ones(3, np.float32),
                half=np.float32(0.5),
                yes=np.array(True),
            )
        )
    )
    assert op_types(result) == ["RandomUniformLike", "Dropout", "Bernoulli"]
    assert reasons(result).count("ONNX declares it non-deterministic") == 2
    assert "it may be in training mode, which is random" in reasons(result)


def test_a_weight_stays_quantised():
    result = fold(
        "g (float[1,3] x) => (float[1,2] y) { w = DequantizeLinear(q, s) y = MatMul(x, w) }",
        q=np.ones((3, 2), np.int8),
        s=np.float32(0.5),
    )
    assert op_types(result) == ["DequantizeLinear", "MatMul"]
    assert reasons(result) == ["folding it would undo the quantisation of the weight"]


OVERRIDABLE = "g (float[1,3] x, float[3] w) => (float[1,3] y) { n = Neg(w) y = Add(x, n) }"


def test_what_a_caller_may_override_is_no_constant():
    result = fold(OVERRIDABLE, w=np.ones(3, np.float32))
    assert op_types(result) == ["Neg", "Add"]
    assert reasons(result) == ["initializer 'w' is an input of the model too, so a caller may override it"]


def test_unless_that_is_asked_for():
    result = fold(OVERRIDABLE, step=FoldConstants(fold_overridable=True), w=np.ones(3, np.float32))
    assert op_types(result) == ["Add"]
    assert [value.name for value in result.model.ir.graph.inputs] == ["x", "w"]


def test_a_model_does_not_explode():
    result = fold(
        "g (float[1,3] x) => (float y) { c = ConstantOfShape(s) d = Abs(c) t = ReduceSum<keepdims = 0>(x) e = Add(d, t)"
        " y = ReduceMax<keepdims = 0>(e) }",
        s=np.array([512, 512]),
    )
    assert op_types(result) == ["ConstantOfShape", "Abs", "ReduceSum", "Add", "ReduceMax"]
    (reason,) = reasons(result)
    assert reason.startswith("folding it would add 1,048,576 bytes to the model")


def test_what_grows_on_the_way_only_folds():
    result = fold(
        "g (float[1,3] x) => (float[1,3] y) { e = Expand(w, s) r = ReduceSum(e) y = Add(x, r) }",
        {"x": X},
        w=np.ones(1, np.float32),
        s=np.array([64, 64]),
    )
    assert op_types(result) == ["Add"]


def test_the_part_before_an_explosion_folds():
    result = fold(
        "g (float[512,512] x) => (float[512,512] y) { n = Neg(w) a = Abs(n) e = Expand(a, s) y = Add(x, e) }",
        {"x": np.ones((512, 512), np.float32)},
        w=np.ones(1, np.float32),
        s=np.array([512, 512]),
    )
    assert op_types(result) == ["Expand", "Add"]


def test_a_transposed_weight_takes_the_place_of_the_weight():
    weight = (np.arange(3000, dtype=np.float32) % 7).reshape(3, 1000)
    text = "g (float[1,1000] x) => (float[1,3] y) { t = Transpose(w) y = MatMul(x, t) }"
    x = np.ones((1, 1000), np.float32)
    result = fold(text, {"x": x}, w=weight)
    assert op_types(result) == ["MatMul"]


def test_a_transposed_copy_of_a_weight_that_stays_is_too_much():
    weight = (np.arange(3000, dtype=np.float32) % 7).reshape(3, 1000)
    text = "g (float[3,1000] x) => (float[3,3] y) { a = Add(x, w) t = Transpose(w) y = MatMul(a, t) }"
    x = np.ones((3, 1000), np.float32)
    assert op_types(fold(text, {"x": x}, w=weight)) == ["Add", "Transpose", "MatMul"]
    asked = FoldConstants(max_growth_bytes=12000)
    assert op_types(fold(text, {"x": x}, step=asked, w=weight)) == ["Add", "MatMul"]


def test_the_budget_is_one_over_all_runs():
    def growing(size: int) -> onnx.ModelProto:
        text = "g (float[N] x) => (float[N] y) { e = Expand(w, s) y = Add(x, e) }"
        return build(text, w=np.ones(1, np.float32), s=np.array([size]))

    model = Model.from_proto(growing(200))
    FoldConstants().run(model)
    assert op_types(FoldConstants().run(model)) == ["Add"]
    assert FoldingState.of(model).taken == 200 * 4 - 12 - 32
    assert FoldingState.of(model).left(model, 1000) == 1000 - FoldingState.of(model).taken


def test_the_condition_of_a_loop_is_a_constant_in_its_body():
    result = fold(
        """g (float[2] x) => (float[2] y) <int64 n = {3}, bool keep = {1}> {
        y = Loop(n, keep, x) <body = b (int64 i, bool c, float[2] v) => (bool more, float[2] w)
            { more = Identity(keep) w = Add(v, v) }> }""",
        {"x": np.ones(2, np.float32)},
    )
    (loop,) = (node for node in result.model.nodes() if node.op_type == "Loop")
    assert sorted(node.op_type for node in loop.attributes["body"].as_graph()) == ["Add", "Constant"]


def test_a_size_that_only_computing_tells_is_in_the_budget():
    weight = np.ones((40, 40), np.float32)
    result = fold(
        "g (float[40,40] x) => (int64[2,M] y, float[40,40] z) { n = NonZero(w) y = Identity(n) z = Add(x, w) }",
        {"x": weight},
        w=weight,
    )
    assert op_types(result) == ["NonZero", "Identity", "Add"]
    assert reasons(result)[0].startswith("folding it would add 25,600 bytes")


def test_half_precision_is_computed_as_the_runtime_does(children):
    result = fold(
        "g (float16[1,3] x) => (float16[1,3] y) { a = Exp(w) b = Add(a, w) y = Add(x, b) }",
        {"x": X.astype(np.float16)},
        w=np.array([0.1, 1, 2], np.float16),
    )
    assert op_types(result) == ["Add"]
    assert len(children) == 1


def test_what_the_runtime_refuses_stays_and_is_not_tried_again(children):
    model = Model.from_proto(
        build(
            """g (float[1,3] x) => (float[1,3] y, int64[3] z) {
                b = Exp(a) z = Div(i, j) y = Add(x, b) }""",
            a=np.ones(3, np.float32),
            i=np.array([1, 2, 3]),
            j=np.array([1, 2, 3, 4]),
        )
    )
    result = FoldConstants().run(model)
    assert op_types(result) == ["Div", "Add"]
    assert reasons(result)[0].startswith("it cannot be computed beforehand")
    tried = len(children)
    assert op_types(FoldConstants().run(model)) == ["Div", "Add"]
    assert len(children) == tried


def test_texts_move_too():
    result = fold(
        "g (string[2] x) => (string[4] y) { r = Reshape(w, s) y = Concat<axis = 0>(x, r) }",
        {"x": np.array(["a", "b"], object)},
        w=np.array([["c", "dé"]], object),
        s=np.array([-1]),
    )
    assert op_types(result) == ["Concat"]


def test_the_report_is_of_what_the_pass_does():
    text = """g (float[N,3] x) => (float[N,3] y, float[512,512] z) {
        a = Neg(w) b = Abs(a) y = Add(x, b) c = ConstantOfShape(s) z = Abs(c) q = custom.Op(w) }"""
    header = '<ir_version: 10, opset_import: ["": 21, "custom": 1]>'
    proto = build(text, header, w=np.ones(3, np.float32), s=np.array([512, 512]))
    report = ConstantFolder(Model.from_proto(onnx.ModelProto.FromString(proto.SerializeToString()))).analyse()
    model = Model.from_proto(proto)
    result = FoldConstants().run(model)
    assert [node.op_type for node in report.foldable] == ["Neg", "Abs"]
    assert op_types(result) == ["Add", "ConstantOfShape", "Abs", "Op"]
    assert [node.reason for node in report.blocked] == reasons(result)


def test_a_long_chain_takes_linear_time():
    nodes = " ".join(f"v{number + 1} = Neg(v{number})" for number in range(5000))
    result = fold(f"g (float[1,3] x) => (float[1,3] y) {{ {nodes} y = Add(x, v5000) }}", v0=np.ones(3, np.float32))
    assert op_types(result) == ["Add"]
    assert result.changes == 5000


def test_what_both_branches_make_of_a_weight_is_one_constant():
    branch = """() => (float[1,1000] OUT) {
        lo = Constant<value_ints = [0]>() a = Slice(w, lo, hi) b = Slice(w, hi, end)
        k = Concat<axis = 0>(b, a) OUT = OP(x, k) }"""
    then, other = (branch.replace("OP", op).replace("OUT", name) for op, name in (("MatMul", "p"), ("Gemm", "q")))
    result = fold(
        "g (float[1,3] x, bool c) => (float[1,1000] y) { "
        f"y = If(c) <then_branch = t {then}, else_branch = e {other}> }}",
        {"x": X, "c": np.array(True)},
        w=(np.arange(3000, dtype=np.float32) % 7).reshape(3, 1000),
        hi=np.array([1]),
        end=np.array([3]),
    )
    assert op_types(result) == ["If", "MatMul", "Gemm"]
    assert [value.const_value.shape.numpy() for value in result.model.ir.graph.initializers.values()] == [(3, 1000)]
