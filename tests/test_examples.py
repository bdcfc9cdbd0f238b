"""Each example runs and prints what its README says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(script, *arguments):
    command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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
    assert {"original", "ort_extended"} <= {row[0] for row in rows}
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
    assert "ORT_ENABLE_ALL: 2 nodes, outputs agree: True" in out
    mine = write_model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    assert run("04_bring_your_own_model/tour.py", mine, "--output", tmp_path / "out").startswith("1 nodes: {'Neg': 1}")
