from __future__ import annotations

import onnx
import pytest
from analysis_helpers import analysed, weights

from onnxsmith.errors import InvalidModelError
from onnxsmith.graph_analysis import ShapeAnalyzer, ShapeReport
from onnxsmith.graph_analysis import shape_analyzer as analyzer_module
from onnxsmith.model import Model


def analyze(proto: onnx.ModelProto) -> ShapeReport:
    model = Model.from_proto(proto)
    return ShapeAnalyzer(model, analysis=analysed(model)).analyze()


def test_a_line_for_each_node(cnn, write_model):
    report = ShapeAnalyzer(Model.load(write_model(cnn))).analyze()
    assert report.lines == (
        "[0] Conv in=[input:[batch_size, 1, 8, 8], w:[32, 1, 3, 3], b:[32]] → out=[c:[batch_size, 32, 8, 8]]",
        "[1] BatchNormalization in=[c:[batch_size, 32, 8, 8], gamma:[32], beta:[32], mean:[32], var:[32]] "
        "→ out=[n:[batch_size, 32, 8, 8]]",
        "[2] Relu in=[n:[batch_size, 32, 8, 8]] → out=[r:[batch_size, 32, 8, 8]]",
        "[3] GlobalAveragePool in=[r:[batch_size, 32, 8, 8]] → out=[p:[batch_size, 32, 1, 1]]",
        "[4] Flatten in=[p:[batch_size, 32, 1, 1]] → out=[f:[batch_size, 32]]",
        "[5] Gemm in=[f:[batch_size, 32], fc_w:[10, 32], fc_b:[10]] → out=[output:[batch_size, 10]]",
    )


def test_what_inference_filled_in(cnn):
    report = analyze(cnn)
    assert report.shapes["input"] == ("batch_size", 1, 8, 8)
    assert report.shapes["p"] == ("batch_size", 32, 1, 1)
    assert report.shapes["w"] == (32, 1, 3, 3)
    assert (report.total, report.known_before, report.known_after) == (7, 2, 7)
    assert report.filled == ("c", "n", "r", "p", "f")
    assert (report.partly_known, report.unknown) == ((), ())
    assert ShapeReport.model_validate_json(report.model_dump_json()) == report


def test_dynamic_dimensions_by_name(build_model):
    text = "g (int64[batch, seq_len] ids) => (float[batch, seq_len, 4] y) { y = Gather(table, ids) }"
    report = analyze(build_model(text, *weights(table=(9, 4))))
    assert [(dim.name, dim.places) for dim in report.dynamic_dims] == [
        ("batch", ("ids[0]", "y[0]")),
        ("seq_len", ("ids[1]", "y[1]")),
    ]


def test_dimensions_that_inference_made_up_are_partly_known(build_model):
    report = analyze(build_model("g (float[n, 4] x) => (int64[2, m] y) { a = NonZero(x) y = Identity(a) }"))
    assert report.lines[0] == "[0] NonZero in=[x:[n, 4]] → out=[a:[2, unk__0]]"
    assert report.filled == ("a",)
    assert report.partly_known == ("a",)
    assert (report.total, report.known_before, report.known_after) == (3, 2, 2)
    assert [dim.name for dim in report.dynamic_dims] == ["n", "m"]


def test_a_name_of_the_model_that_looks_made_up_is_its_own(build_model):
    report = analyze(build_model("g (float[unk__7, 4] x) => (float[unk__7, 4] y) { y = Relu(x) }"))
    assert (report.known_before, report.known_after) == (2, 2)
    assert [(dim.name, dim.places) for dim in report.dynamic_dims] == [("unk__7", ("x[0]", "y[0]"))]


def test_what_stays_unknown(build_model):
    report = analyze(build_model("g (float[n] x) => (float[n] y) { a = custom.Op(x) y = custom.Op(a) }"))
    assert report.unknown == ("a",)
    assert report.lines == (
        "[0] custom::Op in=[x:[n]] → out=[a:[?…]]",
        "[1] custom::Op in=[a:[?…]] → out=[y:[n]]",
    )


def test_subgraphs_stand_under_their_parent(build_model):
    report = analyze(
        build_model("""
        g (bool c, float[2] x) => (float[2] y) {
            r = Relu(x)
            [choice] y = If(c) <
                then_branch = t () => (float[2] a) { a = Neg(r) },
                else_branch = e () => (float[2] a) { a = If(c) <
                    then_branch = tt () => (float[2] b) { b = Abs(x) },
                    else_branch = ee () => (float[2] b) <float[2] k = {1, 2}> { b = Add(x, k) }
                > }
            >
        }""")
    )
    assert report.lines == (
        "[0] Relu in=[x:[2]] → out=[r:[2]]",
        "[1] If in=[c:[]] → out=[y:[2]]",
        "  then_branch[0] Neg in=[r:[2]] → out=[a:[2]]",
        "  else_branch[0] If in=[c:[]] → out=[a:[2]]",
        "    then_branch[0] Abs in=[x:[2]] → out=[b:[2]]",
        "    else_branch[0] Add in=[x:[2], k:[2]] → out=[b:[2]]",
    )
    assert report.shapes["choice/then_branch:a"] == (2,)
    assert report.shapes["choice/else_branch/If_0/else_branch:k"] == (2,)
    assert report.total == 8


def test_values_that_have_no_shape(build_model):
    report = analyze(
        build_model("""
        <ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]>
        g (float[N, 2] p, seq(float[2]) s, optional(float[2]) o) =>
          (seq(map(int64, float)) z, float[2] first, float[2] got) {
            z = ai.onnx.ml.ZipMap<classlabels_int64s = [0, 1]>(p)
            at = Constant<value_int = 0>()
            first = SequenceAt(s, at)
            got = OptionalGetElement(o)
        }""")
    )
    assert report.lines == (
        "[0] ai.onnx.ml::ZipMap in=[p:[N, 2]] → out=[z:sequence]",
        "[1] Constant in=[] → out=[at:[]]",
        "[2] SequenceAt in=[s:sequence, at:[]] → out=[first:[2]]",
        "[3] OptionalGetElement in=[o:optional] → out=[got:[2]]",
    )
    assert (report.total, report.unknown) == (4, ())


def test_optional_inputs_that_are_left_out(build_model):
    report = analyze(build_model("g (float[2] x) => (float[2] y) { y = Clip(x, , top) }", *weights(top=())))
    assert report.lines == ("[0] Clip in=[x:[2], -, top:[]] → out=[y:[2]]",)


def test_a_graph_without_nodes(build_model):
    report = analyze(build_model("g (float[n] x) => (float[n] x) {}"))
    assert (report.lines, report.shapes, report.total) == ((), {"x": ("n",)}, 1)


def test_what_was_analysed_before_is_not_analysed_again(cnn, monkeypatch):
    model = Model.from_proto(cnn)
    analysis = analysed(model)
    monkeypatch.setattr(analyzer_module, "analyse_native", None)
    assert len(ShapeAnalyzer(model, analysis=analysis).analyze().lines) == 6


def test_an_invalid_model_is_refused(write_model):
    path = write_model("g (float[2] x) => (float[2] y) { y = Relu(missing) }")
    with pytest.raises(InvalidModelError, match="missing"):
        ShapeAnalyzer(Model.load(path)).analyze()
