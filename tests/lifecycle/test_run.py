"""The whole lifecycle on the examples and on a user's model."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxsmith
from onnxsmith.errors import ConfigError, MissingExtraError, PassError
from onnxsmith.lifecycle import pipeline

LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL")


def config(folder: Path, **changes):
    paths = {"outputs": folder / "outputs", "models": folder / "outputs/models", "log": folder / "logs/run.log"}
    return onnxsmith.Config(paths=paths, benchmark={"runs": 5, "warmup_runs": 1, "batch_sizes": [1, 4]}, **changes)


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    for module in ("torch", "skl2onnx", "matplotlib", "jinja2"):
        pytest.importorskip(module, reason="the examples need the extras torch, sklearn and report")
    folder = tmp_path_factory.mktemp("run")
    return folder, onnxsmith.run(config(folder))


def test_the_files_have_the_names_they_are_promised(examples):
    folder, _ = examples
    models = folder / "outputs" / "models"
    for name in ("cnn_model.onnx", "sklearn_pipeline.onnx", *(f"optimized_{level}.onnx" for level in LEVELS)):
        onnx.checker.check_model(onnx.load(models / name)) if "ENABLE" not in name else onnx.load(models / name)
    assert len(list(models.glob("*.png"))) >= 6
    assert (folder / "outputs" / "report.html").is_file()


def test_the_exported_network_is_the_one_that_was_asked_for(examples):
    folder, _ = examples
    model = onnx.load(folder / "outputs/models/cnn_model.onnx")
    assert [entry.version for entry in model.opset_import if not entry.domain] == [17]
    (image,) = model.graph.input
    assert image.name == "input"
    dims = image.type.tensor_type.shape.dim
    assert dims[0].dim_param == "batch_size"
    assert [dim.dim_value for dim in dims[1:]] == [1, 8, 8]
    assert any(list(weight.dims) == [32, 1, 3, 3] for weight in model.graph.initializer)


def test_the_held_out_accuracy_is_the_same_sample_by_sample_everywhere(examples):
    _, report = examples
    for subject in report.subjects:
        assert subject.accuracy is not None
        assert subject.accuracy.samples == (200 if subject.label == "sklearn_pipeline" else 360)
        assert [row.label for row in subject.accuracy.rows][2:] == [*LEVELS, "onnxsmith"]
        for row in subject.accuracy.rows:
            assert row.same == subject.accuracy.samples
            assert row.accuracy == subject.accuracy.rows[0].accuracy
            assert row.max_probability_error < 1e-4
        if subject.label != "sklearn_pipeline":
            assert subject.accuracy.rows[0].accuracy > 0.97


def test_batch_normalisation_folds_where_the_report_says(examples):
    _, report = examples
    subject = next(subject for subject in report.subjects if subject.label == "cnn_model_unfolded")
    fusion = subject.optimization.fusion
    assert fusion.batch_normalizations["original"] == 2
    gone_at = fusion.batch_normalizations_gone_at
    counted = {}
    for level in LEVELS:
        nodes = onnx.load(subject.folder / f"optimized_{level}.onnx").graph.node
        counted[level] = sum(node.op_type == "BatchNormalization" for node in nodes)
        assert counted[level] == fusion.batch_normalizations[level]
    assert gone_at == next(level for level in LEVELS if counted[level] < 2)


def test_our_own_optimiser_stands_beside_the_levels(examples):
    folder, report = examples
    html = (folder / "outputs" / "report.html").read_text(encoding="utf-8")
    for subject in report.subjects:
        optimized = subject.optimized
        assert optimized.output == subject.folder / "optimized_onnxsmith.onnx"
        assert (optimized.pipeline, optimized.verification.agree, optimized.rolled_back) == ("default", True, ())
        nodes = [node.op_type for node in onnx.load(optimized.output).graph.node]
        assert len(nodes) - nodes.count("Constant") == optimized.nodes_after <= optimized.nodes_before
        assert [row.model for row in subject.level_benchmark] == [*LEVELS, "onnxsmith"]
        assert f"nodes → <b>{optimized.nodes_after}</b>" in html
        for total in optimized.passes:
            assert (f"<td>{total.name}</td>" in html) or not total.changes
    unfolded = next(subject for subject in report.subjects if subject.label == "cnn_model_unfolded")
    assert unfolded.optimized.op_counts_before["BatchNormalization"] == 2
    assert "BatchNormalization" not in unfolded.optimized.op_counts_after
    (folding,) = (total for total in unfolded.optimized.passes if total.name == "fold-batch-norm")
    assert (folding.changes, folding.nodes_removed) == (2, 2)


def test_the_example_answers_agree(examples):
    _, report = examples
    for subject in report.subjects:
        assert subject.example is not None
        framework, ours = subject.example.framework, subject.example.onnx
        assert [score.index for score in framework] == [score.index for score in ours]
        np.testing.assert_allclose(
            [score.probability for score in framework], [score.probability for score in ours], atol=1e-5
        )


def test_the_report_is_one_file_with_everything_in_it(examples):
    folder, report = examples
    html = (folder / "outputs" / "report.html").read_text(encoding="utf-8")
    links = re.findall(r'(?:src|href)="([^"#][^"]*)"', html)
    assert links
    assert all(link.startswith("data:image/png;base64,") for link in links)
    for subject in report.subjects:
        assert f'id="{subject.label}"' in html
        for row in subject.profile.slowest_nodes:
            assert row.name in html
        for warning in subject.warnings:
            assert warning.split("'")[0] in html
    for figure in ("mean", "p50", "p95", "p99", "throughput"):
        assert f"<td>{figure}</td>" in html


def test_the_report_as_json(examples):
    _, report = examples
    again = json.loads(report.model_dump_json())
    assert [subject["label"] for subject in again["subjects"]] == [
        "cnn_model",
        "cnn_model_unfolded",
        "sklearn_pipeline",
    ]
    assert sum(stage["seconds"] for stage in again["stages"]) <= again["seconds"]


def test_the_second_run_does_not_train_again(examples, monkeypatch):
    folder, first = examples
    from onnxsmith.model_exporter import training

    def must_not_train(*_, **__):
        raise AssertionError("trained again")

    monkeypatch.setattr(training, "train_simple_cnn", must_not_train)
    second = onnxsmith.run(config(folder, optimization={"levels": ["ORT_ENABLE_BASIC"]}))
    assert second.subjects[0].training == first.subjects[0].training
    assert second.subjects[0].accuracy.rows[0] == first.subjects[0].accuracy.rows[0]


def test_a_users_own_model(write_model, tmp_path):
    pytest.importorskip("matplotlib", reason="the report is an extra")
    pytest.importorskip("jinja2", reason="the report is an extra")
    path = write_model(
        "g (float[n, 4] x, string[n] s) => (float[n, 4] y, string[n] t) "
        "{ a = Identity(x) y = Relu(a) t = Identity(s) }",
        "mine.onnx",
    )
    before = path.read_bytes()
    report = onnxsmith.run(config(tmp_path, model=path))
    (subject,) = report.subjects
    assert (subject.label, subject.export, subject.accuracy) == ("mine", None, None)
    assert subject.inspection.node_count == 3
    assert {result.level for result in subject.optimization.levels} == set(LEVELS)
    assert all(result.agreement.agree for result in subject.optimization.levels)
    assert "mine" in report.report.read_text(encoding="utf-8")
    assert path.read_bytes() == before


def test_the_configured_pipeline_is_the_one_that_runs(write_model, tmp_path, caplog):
    pytest.importorskip("matplotlib", reason="the report is an extra")
    pytest.importorskip("jinja2", reason="the report is an extra")
    path = write_model("g (float[n, 4] x) => (float[n, 4] y) { a = Identity(x) y = Relu(a) }", "mine.onnx")
    chosen = {"passes": ["eliminate-noops"], "dims": {"n": 2}, "levels": ["ORT_ENABLE_BASIC"]}
    with caplog.at_level("INFO"):
        (subject,) = onnxsmith.run(config(tmp_path, model=path, optimization=chosen)).subjects
    assert "mine: eliminate-noops: 1 changes, -1 nodes" in caplog.text
    assert subject.optimized.pipeline == "custom"
    assert [total.name for total in subject.optimized.passes] == ["specialize-shapes", "eliminate-noops"]
    assert [(row.model, row.batch_size) for row in subject.level_benchmark][-1] == ("onnxsmith", 2)
    assert onnxsmith.load(subject.optimized.output).inputs[0].shape == (2, 4)


def test_an_unknown_pass_is_said_before_anything_runs(tmp_path):
    pytest.importorskip("matplotlib", reason="the report is an extra")
    pytest.importorskip("jinja2", reason="the report is an extra")
    with pytest.raises(PassError, match="there is no pass 'fold-constant'"):
        onnxsmith.run(config(tmp_path, model=tmp_path / "any.onnx", optimization={"passes": ["fold-constant"]}))
    assert list(tmp_path.iterdir()) == []


def test_its_own_results_are_no_input(write_model, tmp_path):
    pytest.importorskip("matplotlib", reason="the report is an extra")
    pytest.importorskip("jinja2", reason="the report is an extra")
    for name in ("optimized_ORT_ENABLE_ALL.onnx", "optimized_onnxsmith.onnx"):
        path = write_model("g (float[4] x) => (float[4] y) { y = Relu(x) }", f"outputs/models/{name}")
        with pytest.raises(ConfigError, match="where the run writes its own results"):
            onnxsmith.run(config(tmp_path, model=path))


def test_what_is_missing_is_said_before_anything_runs(monkeypatch, tmp_path):
    def missing(module, *, purpose):
        raise MissingExtraError(f"{module} is needed {purpose}, and it is not installed.", "Install it")

    monkeypatch.setattr(pipeline, "require", missing)
    with pytest.raises(MissingExtraError):
        onnxsmith.run(config(tmp_path))
    assert list(tmp_path.iterdir()) == []
