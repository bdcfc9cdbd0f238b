"""The optimiser: what it writes, what it refuses, and what it takes out."""

import numpy as np
import onnx
import pytest
from core_helpers import floats, run
from onnx.numpy_helper import from_array

from onnxsmith.config import Config
from onnxsmith.errors import InvalidModelError, OutputError, PassError, TensorError
from onnxsmith.graph_optimizer import Optimizer
from onnxsmith.graph_optimizer.editor import PROVENANCE
from onnxsmith.model import Model

TEXT = (
    "g (float[batch, 2] x) => (float[batch, 2] y) <float[2] w = {1, 2}> "
    "{ a = Identity(x) b = Sub(a, w) c = Identity(b) y = Relu(c) }"
)
PLAIN = "g (float[2] x) => (float[2] y) { y = Relu(x) }"


@pytest.fixture
def optimize(write_model, tmp_path, planted):
    """Optimises a text; options are those of `optimization`."""

    def call(text=TEXT, *, feeds=None, dump=None, **options):
        path = write_model(text)
        before = path.read_bytes()
        report = Optimizer(Config(optimization=options)).run(
            Model.load(path), tmp_path / "out.onnx", feeds=feeds, dump=dump
        )
        assert path.read_bytes() == before
        assert report.output == tmp_path / "out.onnx"
        return report, Model.load(report.output)

    return call


def ops(model):
    return [node.op_type for node in model.ir.graph]


def test_a_model_is_optimised_compared_and_reported(optimize):
    report, model = optimize(passes=["drop-identity"])
    assert ops(model) == ["Sub", "Relu"]
    np.testing.assert_array_equal(run(model, {"x": floats([3, 1])})[0], [[2, 0]])
    assert (report.pipeline, report.nodes_before, report.nodes_after) == ("custom", 4, 2)
    assert report.op_counts_before == {"Identity": 2, "Relu": 1, "Sub": 1}
    assert report.op_counts_after == {"Relu": 1, "Sub": 1}
    assert (report.opset_before, report.opset_after) == (21, 21)
    assert report.size_after == report.output.stat().st_size < report.size_before
    (total,) = report.passes
    assert (total.name, total.changes, total.nodes_removed, total.bytes_removed) == ("drop-identity", 2, 2, 0)
    assert [(step.name, step.changes) for step in report.steps] == [("drop-identity", 2)]
    assert report.verification.agree is True
    assert [check.kind for check in report.verification.checks] == [
        "normal", "uniform", "zeros", "large", "nan", "other sizes",
    ]  # fmt: skip
    assert (report.rolled_back, report.unchanged) == ((), None)
    assert report.seconds > total.seconds


def test_the_default_pipeline_does_it_all(optimize):
    report, model = optimize()
    assert report.pipeline == "default"
    assert ops(model) == ["Sub", "Relu"]
    assert report.verification.agree is True


def test_everything_about_the_model_but_its_nodes_stays(optimize, build_model):
    proto = build_model(TEXT)
    proto.doc_string, proto.model_version, proto.domain, proto.producer_name = "about", 7, "org.test", "me"
    proto.metadata_props.add(key="k", value="v")
    proto.graph.doc_string = "graph"
    proto.graph.input[0].doc_string = "an input"
    _, model = optimize(proto, passes=["drop-identity"])
    after = onnx.load(model.path)
    for field in ("doc_string", "model_version", "domain", "producer_name", "metadata_props", "opset_import"):
        assert getattr(after, field) == getattr(proto, field), field
    assert after.graph.doc_string == "graph"
    assert list(after.graph.input) == list(proto.graph.input)
    assert list(after.graph.output) == list(proto.graph.output)


def test_a_model_with_nothing_to_do_comes_back_as_it_was(optimize):
    report, model = optimize(PLAIN, passes=["drop-identity"])
    assert report.unchanged == "no pass found anything to do"
    assert ops(model) == ["Relu"]
    assert report.steps == ()


def test_a_pass_that_changes_values_is_rolled_back_and_the_rest_goes_on(optimize):
    report, model = optimize(passes=["swap-sub", "drop-identity"])
    (gone,) = report.rolled_back
    assert (gone.name, gone.number) == ("swap-sub", 0)
    assert gone.reason.startswith("the outputs differ on normal inputs: output 'y'")
    assert ops(model) == ["Sub", "Relu"]
    np.testing.assert_array_equal(run(model, {"x": floats([3, 1])})[0], [[2, 0]])
    assert report.verification.agree is True
    assert [total.name for total in report.passes if total.changes] == ["drop-identity"]


def test_every_kind_of_bad_pass_is_named(optimize):
    report, model = optimize(passes=["raises", "renames-output", "breaks-structure", "swap-sub", "drop-identity"])
    assert {gone.name: gone.reason.split(":")[0] for gone in report.rolled_back} == {
        "raises": "ValueError",
        "breaks-structure": "node 'Relu(y)'",
        "renames-output": "the interface differs",
        "swap-sub": "the outputs differ on normal inputs",
    }
    assert ops(model) == ["Sub", "Relu"]


def test_where_only_bad_passes_run_the_model_comes_back_as_it_was(optimize):
    report, model = optimize(passes=["swap-sub"])
    assert report.unchanged == "no pass found anything to do, but for those that are rolled back"
    assert [gone.name for gone in report.rolled_back] == ["swap-sub"]
    assert ops(model) == ["Identity", "Sub", "Identity", "Relu"]
    np.testing.assert_array_equal(run(model, {"x": floats([3, 1])})[0], [[2, 0]])


def test_without_verification_only_structure_and_interface_are_held(optimize):
    report, model = optimize(passes=["swap-sub", "renames-output"], verify=False)
    assert [gone.name for gone in report.rolled_back] == ["renames-output"]
    assert report.verification.agree is None
    assert report.verification.reason == "verification is off"
    np.testing.assert_array_equal(run(model, {"x": floats([3, 1])})[0], [[0, 1]])


def test_checking_after_each_pass_names_the_pass_at_once(optimize):
    report, model = optimize(passes=["drop-identity", "swap-sub"], check="each")
    (gone,) = report.rolled_back
    assert (gone.name, gone.number) == ("swap-sub", 1)
    assert gone.reason.startswith("on normal inputs: output 'y'")
    assert ops(model) == ["Sub", "Relu"]


def test_skipped_passes_do_not_run(optimize):
    report, model = optimize(passes=["drop-identity", "swap-sub"], skip=["swap-sub"])
    assert report.rolled_back == ()
    assert ops(model) == ["Sub", "Relu"]


def test_a_file_over_its_limit_is_the_model_as_it_was(optimize):
    report, model = optimize(passes=["double-identity"], max_size_ratio=1.0)
    assert report.unchanged.endswith(f"bytes, and {report.size_before:,} are allowed")
    assert ops(model) == ["Identity", "Sub", "Identity", "Relu"]
    assert report.nodes_after == 4


def test_a_file_that_is_no_larger_than_the_model_as_it_was_is_taken(optimize):
    report, model = optimize(passes=["drop-identity"], max_size_ratio=0.1)
    assert report.unchanged is None
    assert ops(model) == ["Sub", "Relu"]


def test_notes_on_nodes_go_before_a_file_is_over_its_limit(optimize):
    noted, _ = optimize(passes=["double-identity"], max_size_ratio=10.0)
    ratio = (noted.size_after - 1) / noted.size_before
    report, model = optimize(passes=["double-identity"], max_size_ratio=ratio)
    assert report.unchanged is None
    assert ops(model).count("Identity") == 4
    assert not any(PROVENANCE in node.metadata_props for node in model.nodes())


@pytest.mark.parametrize(("keep", "expected"), [(True, {"double-identity"}), (False, set())])
def test_nodes_say_which_pass_made_them_unless_that_is_off(optimize, keep, expected):
    _, model = optimize(passes=["double-identity"], provenance=keep, max_size_ratio=10.0)
    assert {node.metadata_props[PROVENANCE] for node in model.nodes() if PROVENANCE in node.metadata_props} == expected


def test_an_invalid_model_is_refused(write_model, tmp_path):
    path = write_model("g (float[2] x) => (float[2] y) { y = NoSuchOperator(x) }")
    with pytest.raises(InvalidModelError, match="NoSuchOperator"):
        Optimizer().run(Model.load(path), tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


def test_a_model_that_cannot_run_is_optimised_and_not_compared(optimize):
    report, model = optimize("g (float[2] x) => (float[2] y) { a = Identity(x) b = custom.Odd(a) y = Relu(b) }")
    assert ops(model) == ["Odd", "Relu"]
    assert report.op_counts_after == {"Relu": 1, "custom::Odd": 1}
    assert report.verification.agree is None
    assert "the original does not run on these inputs" in report.verification.reason
    assert "Odd" in report.verification.reason


def test_a_random_model_is_not_compared_and_says_so(optimize):
    report, model = optimize("g (float[2] x) => (float[2] y) { a = Identity(x) r = RandomNormalLike(a) y = Add(r, a) }")
    assert ops(model) == ["RandomNormalLike", "Add"]
    assert report.verification.agree is None
    assert "RandomNormalLike" in report.verification.reason


def test_dimensions_are_fixed(optimize):
    report, model = optimize(dims={"batch": 3}, passes=["drop-identity"])
    assert [spec.shape for spec in (*model.inputs, *model.outputs)] == [(3, 2), (3, 2)]
    assert [total.name for total in report.passes] == ["specialize-shapes", "drop-identity"]
    assert report.verification.agree is True
    assert "other sizes" not in {check.kind for check in report.verification.checks}


def test_dimensions_are_renamed(optimize):
    report, model = optimize(dims={"batch": "n"}, passes=["drop-identity"])
    assert [spec.shape for spec in (*model.inputs, *model.outputs)] == [("n", 2), ("n", 2)]
    assert report.verification.agree is True


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"passes": ["no-such"]}, PassError, "there is no pass 'no-such'"),
        ({"pipeline": "no-such"}, PassError, "there is no pipeline 'no-such'"),
        ({"dims": {"bacth": 1}}, TensorError, "bacth"),
    ],
)
def test_what_there_is_not_is_refused(optimize, tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        optimize(**options)
    assert not (tmp_path / "out.onnx").exists()


def test_feeds_that_do_not_fit_are_refused(optimize):
    with pytest.raises(TensorError, match="x"):
        optimize(passes=["drop-identity"], feeds={"x": floats(1, 2, 3)})


def test_the_callers_inputs_are_compared_on_first(optimize):
    report, _ = optimize(passes=["swap-sub"], feeds={"x": floats([1, 2])})
    # x - w and w - x are alike here: only other inputs would tell, and there are none.
    assert [check.kind for check in report.verification.checks] == ["given"]
    assert report.rolled_back == ()


def test_the_model_itself_is_never_overwritten(write_model):
    path = write_model(PLAIN)
    with pytest.raises(OutputError, match="never overwritten"):
        Optimizer().run(Model.load(path), path)


def test_the_model_after_each_pass_is_kept_where_asked(optimize, tmp_path):
    optimize(passes=["drop-identity", "double-identity"], dump=tmp_path / "dump")
    (file,) = (tmp_path / "dump").iterdir()
    assert file.name == "00-drop-identity.onnx"
    assert ops(Model.load(file)) == ["Sub", "Relu"]


def test_external_weights_stay_external_and_are_counted(write_model, tmp_path, build_model):
    weight = from_array(np.arange(2000, dtype=np.float32), "w")
    text = "g (float[2000] x) => (float[2000] y) { a = Identity(x) b = Identity(w) y = Add(a, b) }"
    path = write_model(build_model(text, weight), save_as_external_data=True, location="model.bin", size_threshold=100)
    report = Optimizer().run(Model.load(path), tmp_path / "sub" / "out.onnx")
    after = Model.load(report.output)
    assert ops(after) == ["Add"]
    assert after.external_files
    assert report.size_after == sum(file.stat().st_size for file in (tmp_path / "sub").iterdir()) > 8000
    assert report.verification.agree is True


def test_progress_tells_of_the_passes_and_the_comparison(write_model, tmp_path, planted):
    told = []
    config = Config(optimization={"passes": ["drop-identity"]})
    Optimizer(config).run(
        Model.load(write_model(TEXT)), tmp_path / "o.onnx", progress=lambda *args: told.append(args[0])
    )
    assert told == ["drop-identity", "comparing the outputs"]
