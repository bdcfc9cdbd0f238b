"""Each command on a user's model: text, JSON and files."""

import json

import numpy as np
import onnx
import pytest

import onnxsmith


def test_version_and_help(cli):
    assert cli("--version").out == f"onnxsmith {onnxsmith.__version__}\n"
    outcome = cli("--help")
    assert outcome.code == 0
    for command in ("run", "export", "inspect", "optimize", "infer", "benchmark", "profile", "doctor", "config"):
        assert f"\n  {command} " in outcome.out


def test_inspect(cli, classifier, tmp_path):
    outcome = cli("inspect", classifier, "--nodes", "--initializers", "--shapes", "--chart", tmp_path / "c.png")
    assert outcome.code == 0, outcome.err
    assert "float32[batch, 4]" in outcome.out
    assert "[1] Mul in=[a:[batch, 4], w:[4]] → out=[b:[batch, 4]]" in outcome.out
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    report = cli("inspect", classifier, "--output-format", "json").json
    assert report["version"] == 1
    assert report["node_count"] == 3
    assert report["op_counts"] == {"Identity": 1, "Mul": 1, "Relu": 1}
    assert report["totals"]["parameters"] == 4
    assert "shapes" not in report
    assert cli("inspect", classifier, "--shapes", "--output-format=json").json["shapes"]["total"] == 4


def test_optimize_one_level(cli, classifier, tmp_path):
    out = tmp_path / "out.onnx"
    outcome = cli("optimize", classifier, "-o", out, "--level", "ORT_ENABLE_BASIC", "--output-format", "json")
    assert outcome.code == 0, outcome.err
    assert (outcome.json["nodes_before"], outcome.json["nodes_after"]) == (3, 2)
    assert outcome.json["agreement"]["agree"] is True
    assert [node.op_type for node in onnx.load(out).graph.node] == ["Mul", "Relu"]
    text = cli("optimize", classifier, "-o", out, "--level", "ORT_ENABLE_BASIC")
    assert "3 → 2" in text.out


def test_optimize_every_level(cli, classifier, tmp_path):
    outcome = cli("optimize", classifier, "--output-dir", tmp_path / "levels", "--dim", "batch=3")
    assert outcome.code == 0, outcome.err
    names = {path.name for path in (tmp_path / "levels").iterdir()}
    assert names == {
        f"optimized_{level}.onnx"
        for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL")
    }


def test_optimize_needs_one_destination(cli, classifier, tmp_path):
    assert cli("optimize", classifier).code == 1
    assert cli("optimize", classifier, "-o", tmp_path / "a.onnx", "--output-dir", tmp_path / "b").code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["classifier.onnx", "work"]


def test_infer_on_given_and_sampled_inputs(cli, classifier, tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1, -1, 2, 0.5]], np.float32))
    outcome = cli("infer", classifier, "--input", f"x={tmp_path / 'x.npy'}", "-o", tmp_path / "y.npz", "--placement")
    assert outcome.code == 0, outcome.err
    with np.load(tmp_path / "y.npz") as saved:
        np.testing.assert_array_equal(saved["y"], [[1, 0, 6, 2]])
    assert "CPUExecutionProvider" in outcome.out
    report = cli("infer", classifier, "--dim", "batch=4", "--output-format", "json").json
    assert report["outputs"][0]["shape"] == [4, 4]
    assert report["inputs"][0]["sampled"] is True


def test_infer_says_what_it_took_by_default_and_what_it_left_out(cli, classifier):
    outcome = cli("infer", classifier, "--providers", "MIGraphX,CPU")
    assert "taken by default: batch=1" in outcome.out
    assert "MIGraphXExecutionProvider" in outcome.out


def test_top_k(cli, classifier):
    report = cli("infer", classifier, "--top-k", 2, "--output-format", "json").json
    assert [len(row) for row in report["top_classes"]] == [2]


def test_benchmark(cli, classifier, tmp_path):
    outcome = cli(
        "benchmark", classifier, "-b", 1, "-b", 2, "--runs", 5, "--warmup", 1, "--chart", tmp_path / "b.png",
        "--output-format", "json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    results = outcome.json["results"]
    assert [(row["batch_size"], len(row["latencies_ms"])) for row in results] == [(1, 5), (2, 5)]
    for row in results:
        mean = np.mean(row["latencies_ms"])
        assert row["mean_latency_ms"] == pytest.approx(mean)
        assert row["throughput_samples_per_s"] == pytest.approx(row["batch_size"] / mean * 1000)
    assert (tmp_path / "b.png").stat().st_size > 1000


def test_benchmark_side_by_side(cli, classifier, tmp_path):
    copy = tmp_path / "sub" / "classifier.onnx"
    copy.parent.mkdir()
    copy.write_bytes(classifier.read_bytes())
    outcome = cli("benchmark", classifier, copy, "-b", 1, "--runs", 3)
    assert outcome.code == 0, outcome.err
    assert f"speed-up over {classifier}" in outcome.out.replace("\n", "") or "speed-up over" in outcome.out
    labels = [
        row["model"]
        for row in cli("benchmark", classifier, copy, "-b1", "--runs=3", "--output-format=json").json["results"]
    ]
    assert labels == [str(classifier), str(copy)]


def test_profile(cli, classifier, tmp_path):
    outcome = cli("profile", classifier, "--runs", 3, "--trace", tmp_path / "trace.json", "--output-format", "json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["runs"] == 3
    assert {row["name"] for row in outcome.json["operators"]} == {"Mul", "Relu"}
    assert any(event["name"] == "model_run" for event in json.loads((tmp_path / "trace.json").read_text()))
    assert "slowest" in cli("profile", classifier, "--runs", 2).out


def test_doctor(cli):
    outcome = cli("doctor")
    assert outcome.code == 0, outcome.out
    assert "onnxruntime" in outcome.out
    report = cli("doctor", "--output-format", "json").json
    parts = {part["name"]: part for part in report["components"]}
    assert parts["onnx"]["version"] == onnx.__version__
    assert parts["CPUExecutionProvider"]["present"] is True
    assert report["problems"] == []
    missing = [part for part in report["components"] if not part["present"]]
    assert all(part["how_to_get"] for part in missing)


def test_config_show_says_where_values_come_from(cli, monkeypatch, tmp_path):
    (tmp_path / "my.yaml").write_text("benchmark:\n  runs: 7\n  warmup_runs: 3\n")
    monkeypatch.setenv("ONNXSMITH_BENCHMARK__WARMUP_RUNS", "4")
    outcome = cli("config", "show", "--config", tmp_path / "my.yaml", "--set", "seed=5")
    assert outcome.code == 0
    lines = {line.split(":")[0].strip(): line for line in outcome.out.splitlines()}
    assert lines["runs"] == f"  runs: 7  # {tmp_path / 'my.yaml'}:2"
    assert lines["warmup_runs"] == "  warmup_runs: 4  # ONNXSMITH_BENCHMARK__WARMUP_RUNS"
    assert lines["seed"].startswith("seed: 5  # ")
    assert lines["timeout_s"] == "  timeout_s: 1800.0"


def test_config_show_is_a_configuration(cli, tmp_path):
    shown = cli("config", "show", "--set", "benchmark.batch_sizes=[2, 5]").out
    (tmp_path / "again.yaml").write_text(shown)
    outcome = cli("config", "show", "--config", tmp_path / "again.yaml", "--output-format", "json")
    assert outcome.json["config"]["benchmark"]["batch_sizes"] == [2, 5]
    assert cli("config", "schema", "--output-format", "json").code == 0
    schema = cli("config", "schema")
    assert json.loads(schema.out)["properties"]["benchmark"]


def test_the_configuration_file_in_the_folder_is_used_and_flags_are_stronger(cli, classifier):
    from pathlib import Path

    Path("config.yaml").write_text("benchmark: {runs: 4, batch_sizes: [2]}\npaths: {log: my.log}\n")
    results = cli("benchmark", classifier, "--output-format", "json").json["results"]
    assert [(row["batch_size"], len(row["latencies_ms"])) for row in results] == [(2, 4)]
    results = cli("benchmark", classifier, "--runs", 3, "--set", "benchmark.runs=9", "--output-format", "json").json[
        "results"
    ]
    assert len(results[0]["latencies_ms"]) == 3
    assert "classifier batch 2" in Path("my.log").read_text()


def test_export_sklearn(cli, tmp_path):
    pytest.importorskip("skl2onnx", reason="scikit-learn is an extra")
    outcome = cli("export", "sklearn", "-o", tmp_path / "p.onnx", "--output-format", "json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["comparison"]["labels_equal"] == outcome.json["comparison"]["rows"]
    assert onnx.load(tmp_path / "p.onnx").opset_import


def test_export_pytorch(cli, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    from pathlib import Path

    Path("mynet.py").write_text(
        "import torch\n\ndef make():\n    return torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())\n"
    )
    outcome = cli(
        "export", "pytorch", "mynet:make", "-o", tmp_path / "n.onnx", "--input-shape", "1,4",
        "--input-name", "features", "--output-format", "json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert all(row["agree"] for row in outcome.json["comparison"])
    assert onnx.load(tmp_path / "n.onnx").graph.input[0].name == "features"


def test_results_go_to_stdout_and_nothing_else_does(cli, classifier):
    outcome = cli("infer", classifier, "-vv", "--output-format", "json")
    assert outcome.json["outputs"]
    assert cli("infer", classifier, "--quiet").err == ""


def test_no_color_and_a_pipe_give_plain_text(cli, classifier, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in cli("inspect", classifier).out


def test_outputs_that_differ_fail_the_gate_and_are_shown(cli, classifier, tmp_path, monkeypatch):
    """ONNX Runtime is made to look wrong: a tolerance of nothing, and a model that is quantised on the way."""
    from onnxsmith.graph_optimizer import optimization_pipeline
    from onnxsmith.graph_optimizer.agreement import Agreement

    disagreement = Agreement(agree=False, max_abs_error=0.5, worst_output="y", reason="a planted difference")
    real = optimization_pipeline.compare_outputs
    answers = iter([True])

    def planted(expected, got):
        return real(expected, got) if next(answers, False) else disagreement

    monkeypatch.setattr(optimization_pipeline, "compare_outputs", planted)
    outcome = cli("optimize", classifier, "-o", tmp_path / "o.onnx", "--level", "ORT_ENABLE_BASIC")
    assert outcome.code == 1
    assert "DIFFER, largest error 5.0e-01 (a planted difference)" in outcome.out
    assert outcome.err == "failed: the outputs at ORT_ENABLE_BASIC differ from the original's.\n"


def test_an_export_that_differs_fails_the_gate(cli, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    from pathlib import Path

    Path("fickle.py").write_text(
        "import torch\n\n"
        "class Fickle(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x + (1.0 if torch.onnx.is_in_onnx_export() else 0.0)\n\n"
        "def make():\n    return Fickle()\n"
    )
    outcome = cli("export", "pytorch", "fickle:make", "-o", tmp_path / "f.onnx", "--input-shape", "1,4")
    assert outcome.code == 1
    assert "DIFFERS" in outcome.out
    assert "differ from PyTorch's" in outcome.err
    assert (tmp_path / "f.onnx").is_file()


@pytest.mark.parametrize("options", [[], ["--output-format", "json"]])
def test_a_reader_that_goes_away_is_no_error(write_model, options):
    import subprocess
    import sys

    body = " ".join(f"v{i + 1} = Neg(v{i})" for i in range(3000))
    path = write_model(f"g (float[4] v0) => (float[4] v3000) {{ {body} }}")
    command = [sys.executable, "-m", "onnxsmith", "inspect", str(path), "--nodes", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (0, b"")


def test_a_name_from_a_model_cannot_steer_the_terminal(cli, build_model, write_model):
    model = build_model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    name = "入力 [red]x[/red] \x1b[31m\n"
    model.graph.input[0].name = model.graph.node[0].input[0] = name
    path = write_model(model)
    for arguments in (("inspect", path, "--nodes", "--shapes"), ("infer", path), ("infer", path, "--input", "q=1")):
        outcome = cli(*arguments)
        assert "\x1b" not in outcome.out + outcome.err
        # An error has lines of its own, so a line break in a name stays one there.
        written = r"入力 [red]x[/red] \x1b[31m" + (r"\n" if outcome.out else "")
        assert written in outcome.out + outcome.err
