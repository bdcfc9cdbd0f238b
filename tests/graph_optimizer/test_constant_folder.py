"""What folds, what must not, and the bytes of it, counted by hand."""

from __future__ import annotations

import importlib

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import from_array

from onnxsmith.graph_optimizer import ConstantFolder
from onnxsmith.model import Model
from onnxsmith.process import Supervised
from onnxsmith.records import no_progress


@pytest.fixture(autouse=True)
def no_child_process(monkeypatch):
    """Calls what would run in a child; the models here are trusted, and there are many."""

    def call(function: str, *args: object, limits: object, what: str) -> Supervised:
        module, name = function.split(":")
        value = getattr(importlib.import_module(module), name)(*args, progress=no_progress)
        return Supervised(value, "", None)

    monkeypatch.setattr("onnxsmith.model.native.run_supervised", call)


@pytest.fixture
def fold(build_model):
    def analyse(text: str, *initializers: onnx.TensorProto):
        return ConstantFolder(Model.from_proto(build_model(text, *initializers))).analyse()

    return analyse


def labels(report):
    return [node.node for node in report.foldable]


def reasons(report):
    return {node.op_type: node.reason for node in report.blocked}


def weights(name: str, *shape: int, dtype: type = np.float32) -> onnx.TensorProto:
    return from_array(np.ones(shape, dtype), name)


def test_a_chain_folds_into_its_last_value(fold):
    report = fold("g (float[3,4] x) => (float[3,4] y) { a = Neg(w) b = Abs(a) y = Add(x, b) }", weights("w", 3, 4))
    assert labels(report) == ["Neg_0", "Abs_1"]
    assert report.count == 2
    assert (report.bytes_added, report.bytes_removed, report.bytes_net) == (3 * 4 * 4, 3 * 4 * 4, 0)
    assert report.foldable[0].outputs == ("a",)
    assert report.bytes_unknown == ()


def test_a_value_in_the_middle_that_others_use_stays_too(fold):
    report = fold(
        "g (float[3,4] x) => (float[3,4] y, float[3,4] z) { a = Neg(w) b = Abs(a) y = Add(x, b) z = Mul(x, a) }",
        weights("w", 3, 4),
    )
    assert (report.bytes_added, report.bytes_removed) == (2 * 48, 48)


def test_an_initializer_that_a_live_node_uses_is_not_removed(fold):
    report = fold("g (float[3,4] x) => (float[3,4] y) { a = Neg(w) b = Mul(x, w) y = Add(b, a) }", weights("w", 3, 4))
    assert (report.bytes_added, report.bytes_removed, report.bytes_net) == (48, 0, 48)


def test_a_small_input_can_make_a_large_constant(fold):
    report = fold(
        "g (float[8,16] x) => (float[8,16] y) { e = Expand(one, shape) y = Add(x, e) }",
        weights("one", 1),
        from_array(np.array([8, 16]), "shape"),
    )
    assert labels(report) == ["Expand_0"]
    assert (report.bytes_added, report.bytes_removed) == (8 * 16 * 4, 4 + 2 * 8)


def test_constant_nodes_are_constants_and_do_not_count(fold):
    report = fold(
        "g (float[2] x) => (float[2] y) { c = Constant<value_floats = [1.0, 2.0]>() n = Neg(c) y = Add(x, n) }"
    )
    assert labels(report) == ["Neg_1"]
    assert (report.bytes_added, report.bytes_removed) == (8, 8)


def test_an_identity_adds_nothing(fold):
    report = fold("g (float[3,4] x) => (float[3,4] y) { i = Identity(w) y = Add(x, i) }", weights("w", 3, 4))
    assert labels(report) == ["Identity_0"]
    assert (report.bytes_added, report.bytes_removed) == (0, 0)


def test_elements_of_half_a_byte(fold):
    report = fold("g (float[5] x) => (float[5] y, int4[5] q) { q = Cast<to = 22>(w) y = Neg(x) }", weights("w", 5))
    assert (report.bytes_added, report.bytes_removed) == (3, 20)


def test_a_graph_output_stays(fold):
    report = fold("g (float[2] x) => (float[2] y, float[2] n) { n = Neg(w) y = Neg(x) }", weights("w", 2))
    assert (report.bytes_added, report.bytes_removed) == (8, 8)


def test_a_value_that_nobody_uses_adds_nothing(fold):
    report = fold("g (float[2] x) => (float[2] y) { n = Neg(w) y = Neg(x) }", weights("w", 2))
    assert (report.count, report.bytes_added, report.bytes_removed) == (1, 0, 8)


def test_sizes_that_inference_does_not_know_are_listed(fold):
    report = fold(
        """g (float[1,N] x) => (float[1,M] y) {
            a = NonZero(w) f = Cast<to = 1>(a) y = Concat<axis = 1>(x, f) }""",
        weights("w", 3),
    )
    assert labels(report) == ["NonZero_0", "Cast_1"]
    assert (report.bytes_added, report.bytes_removed) == (0, 12)
    assert report.bytes_unknown == ("f",)


SHAPES = {
    "static": ("float[2,3] x", "Shape", True),
    "dynamic": ("float[N,3] x", "Shape", False),
    "static_part": ("float[N,3] x", "Shape<start = 1>", True),
    "dynamic_part": ("float[N,3] x", "Shape<end = 1>", False),
    "negative_start": ("float[N,3] x", "Shape<start = -1>", True),
    "size": ("float[2,3] x", "Size", True),
    "size_dynamic": ("float[N,3] x", "Size", False),
}


@pytest.mark.parametrize("case", SHAPES)
def test_shapes_of_static_values_are_constant(fold, case):
    inputs, operator, folds = SHAPES[case]
    report = fold(f"g ({inputs}) => (float[K] y) {{ s = {operator}(x) y = Cast<to = 1>(s) }}")
    assert labels(report) == (["Shape_0" if "Shape" in operator else "Size_0", "Cast_1"] if folds else [])


def test_a_shape_inferred_on_the_way_counts(fold):
    report = fold("g (float[2,3] x) => (float[3,2] z) { t = Transpose(x) s = Shape(t) z = Reshape(x, s) }")
    assert labels(report) == ["Shape_1"]
    assert report.bytes_added == 2 * 8


BLOCKED = {
    "RandomNormal": ("r = RandomNormal<shape = [2]>()", "ONNX declares it non-deterministic"),
    "Bernoulli": ("r = Bernoulli(w)", "ONNX declares it non-deterministic"),
    "RandomUniformLike": ("r = RandomUniformLike(w)", "ONNX declares it non-deterministic"),
    "Dropout": ("r = Dropout(w, half, yes)", "it may be in training mode, which is random"),
    "Op": ("r = custom.Op(w)", "its operator is of the domain 'custom', not ONNX's own"),
    "DequantizeLinear": ("r = DequantizeLinear(q, half)", "folding it would undo the quantisation of the weight"),
    "If": (
        """r = If(yes) <then_branch = a () => (float[2] p) { p = Neg(x) },
                       else_branch = b () => (float[2] p) { p = Abs(x) }>""",
        "it has a subgraph, which may use values beyond the node's inputs",
    ),
}


@pytest.mark.parametrize("op_type", BLOCKED)
def test_what_must_not_fold(fold, op_type):
    node, reason = BLOCKED[op_type]
    report = fold(
        f"g (float[2] x) => (float[2] y) {{ {node} n = Neg(r) y = Add(x, n) }}",
        weights("w", 2),
        from_array(np.float32(0.5), "half"),
        from_array(np.array(True), "yes"),
        from_array(np.array([1, 2], np.int8), "q"),
    )
    assert reasons(report) == {op_type: reason}
    assert report.count == 0


def test_dropout_in_inference_folds(fold):
    report = fold("g (float[2] x) => (float[2] y) { r = Dropout(w) y = Add(x, r) }", weights("w", 2))
    assert labels(report) == ["Dropout_0"]


def test_a_sequence_does_not_fold(fold):
    report = fold(
        """g (float[2] x) => (float[2] y) {
            s = SequenceConstruct(w, w) c = ConcatFromSequence<axis = 0>(s) y = Add(x, c) }""",
        weights("w", 1),
    )
    assert reasons(report) == {"SequenceConstruct": "its output is a sequence or an optional, not a tensor"}
    assert report.count == 0


def test_a_call_of_a_function_does_not_fold(fold):
    report = fold(
        """<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
        g (float[2] x) => (float[2] y) { t = local.twice(w) y = Add(x, t) }
        <domain: "local", opset_import: ["" : 21]> twice (a) => (b) { b = Add(a, a) }""",
        weights("w", 2),
    )
    assert reasons(report) == {"twice": "it calls a function of the model"}


def test_an_initializer_that_a_caller_may_override(fold):
    report = fold("g (float[2] x, float[2] w) => (float[2] y) { n = Neg(w) y = Add(x, n) }", weights("w", 2))
    assert reasons(report) == {"Neg": "initializer 'w' is an input of the model too, so a caller may override it"}
    assert report.count == 0


def test_a_node_that_also_takes_an_input_is_neither(fold):
    report = fold("g (float[2] x) => (float[2] y) { y = Add(x, w) }", weights("w", 2))
    assert (report.count, report.blocked) == (0, ())


SUBGRAPH = """g (float[2] x, bool c) => (float[2] y) {
    n = Neg(w)
    y = If(c) <then_branch = a () => (float[2] p) { q = Abs(n) p = Add(x, q) },
               else_branch = b () => (float[2] p) { p = Identity(x) }>
}"""


def test_constants_reach_into_subgraphs(fold):
    report = fold(SUBGRAPH, weights("w", 2))
    assert [(node.node, node.graph) for node in report.foldable] == [("Neg_0", ""), ("Abs_0", "If_1/then_branch")]
    assert (report.bytes_added, report.bytes_removed) == (8, 8)


def test_compare_looks_at_what_is_really_gone(build_model):
    before = "g (float[2] x) => (float[2] y) { a = Neg(w) b = Abs(a) y = Add(x, b) }"
    half = "g (float[2] x) => (float[2] y) { b = Abs(a) y = Add(x, b) }"
    after = "g (float[2] x) => (float[2] y) { y = Add(x, b) }"
    model = Model.from_proto(build_model(before, weights("w", 2)))
    versions = {
        "original": model,
        "half": Model.from_proto(build_model(half, weights("a", 2))),
        "all": Model.from_proto(build_model(after, weights("b", 4))),
    }
    comparison = ConstantFolder(model).compare(versions)
    assert comparison.foldable == 2
    assert [level.gone for level in comparison.levels.values()] == [0, 1, 2]
    assert comparison.levels["half"].remaining == ("Abs_1",)
    assert [level.constant_bytes for level in comparison.levels.values()] == [8, 8, 16]


def test_constant_nodes_and_strings_are_in_the_bytes(build_model):
    text = """g (string[1] x) => (string[3] y) {
        c = Constant<value_strings = ["ab", "c"]>() y = Concat<axis = 0>(x, c) }"""
    model = Model.from_proto(build_model(text))
    assert ConstantFolder(model).compare({"it": model}).levels["it"].constant_bytes == 3
