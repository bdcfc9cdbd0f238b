"""Each example runs and prints what its README says."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(script, *arguments, path=None):
    command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    environment = {**os.environ, **({"PYTHONPATH": str(path)} if path is not None else {})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def need(*modules):
    for module in modules:
        pytest.importorskip(module, reason=f"{module} is not installed; it is an extra, or for the examples only")


def test_the_lifecycle(tmp_path):
    need("torch", "skl2onnx", "matplotlib", "jinja2")
    out = run("01_lifecycle/lifecycle.py", "--output", tmp_path, "--runs", 3)
    assert out.count("360 of 360 the same") == 14
    assert "BatchNorm folded at ORT_" in out
    assert (tmp_path / "report.html").is_file()


def test_resnet50_on_cpu(tmp_path):
    need("torch", "transformers")
    out = run("02_resnet50_on_cpu/resnet50_on_cpu.py", "--output", tmp_path, "--tiny", "--runs", 3)
    assert "agrees with PyTorch: True" in out
    rows = [line.split() for line in out.splitlines() if line.endswith("same")]
    assert {"original", "ort_extended", "own_passes"} <= {row[0] for row in rows}
    assert all(float(row[-2]) < 1e-4 for row in rows)
    assert "DIFFERS" not in out


def test_the_detector(tmp_path):
    need("torch")
    out = run("03_detector_export/detector.py", "--output", tmp_path)
    assert "dynamic batch_size, height, width; agrees with PyTorch: True" in out
    found = re.findall(r"(\d+) predictions, largest error (\S+)", out)
    assert [int(count) for count, _ in found] == [20 * 20 + 10 * 10, 40 * 24 + 20 * 12, 8 * 32 + 4 * 16]
    assert all(float(error) < 1e-4 for _, error in found)


def test_the_tour(tmp_path, write_model):
    out = run("04_bring_your_own_model/tour.py", "--output", tmp_path / "out")
    assert out.startswith("3 nodes: {'Identity': 1, 'Mul': 1, 'Relu': 1}")
    assert "optimised: 2 nodes, outputs agree: True\n  eliminate-noops: 1 nodes fewer" in out
    assert "ORT_ENABLE_ALL: 2 nodes, outputs agree: True" in out
    mine = write_model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    assert run("04_bring_your_own_model/tour.py", mine, "--output", tmp_path / "out").startswith("1 nodes: {'Neg': 1}")


def test_the_plugin(tmp_path):
    """The package as pip would install it: its metadata on the path."""
    project = tomllib.loads((EXAMPLES / "05_plugin_pass/pyproject.toml").read_text())["project"]
    alone = (
        "1 change: Mul, Div, Relu\n  not by_thirds: its divisor is no power of two, whose reciprocal would be exact\n"
    )
    assert run("05_plugin_pass/use_the_pass.py", "--output", tmp_path / "a") == (
        f"{alone}not installed: pip install ./examples/05_plugin_pass\n"
    )
    metadata = tmp_path / "site" / "onnxsmith_exact_reciprocal-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    lines = [
        f"[{group}]\n{name} = {value}\n"
        for group, points in project["entry-points"].items()
        for name, value in points.items()
    ]
    (metadata / "entry_points.txt").write_text("".join(lines))
    assert run("05_plugin_pass/use_the_pass.py", "--output", tmp_path / "b", path=tmp_path / "site") == (
        f"{alone}exact-reciprocal: 1 change, outputs agree: True\n"
    )


@pytest.mark.parametrize(
    ("divisor", "applies"),
    [
        (4.0, True), (-0.5, True), (2.0**126, True), (3.0, False), (0.0, False), (float("inf"), False),
        (float("nan"), False), (2.0**127, False), (2.0**-127, False),
    ],
)  # fmt: skip
def test_the_plugin_keeps_every_bit(monkeypatch, build_model, divisor, applies):
    import numpy as np
    from onnx.numpy_helper import from_array

    import onnxsmith

    monkeypatch.syspath_prepend(EXAMPLES / "05_plugin_pass")
    from onnxsmith_exact_reciprocal import ExactReciprocal

    text = "g (float[6] x) => (float[6] y) { y = Div(x, c) }"
    proto = build_model(text, from_array(np.array(divisor, np.float32), "c"))
    feeds = {"x": np.array([1.1, -0.0, np.nan, np.inf, 1e-45, 3e38], np.float32)}
    model = onnxsmith.load(proto)
    result = ExactReciprocal().run(model)
    assert (result.changes, len(result.notes)) == ((1, 0) if applies else (0, 1))
    before, after = (onnxsmith.infer(m, feeds, level="ORT_DISABLE_ALL").outputs["y"] for m in (proto, model))
    np.testing.assert_array_equal(before.view(np.int32), after.view(np.int32))
