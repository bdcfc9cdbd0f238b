"""Runs a pass of another package: by itself, and, where the package is installed, by its name."""

import argparse
import tempfile
from importlib.metadata import entry_points
from pathlib import Path

import onnx
from onnxsmith_exact_reciprocal import ExactReciprocal

import onnxsmith

SMALL = """
<ir_version: 8, opset_import: ["": 17]>
small (float[batch, 2] x) => (float[batch, 2] y)
<float four = {4}, float[2] thirds = {3, 2}>
{ a = Div(x, four)  [by_thirds] b = Div(a, thirds)  y = Relu(b) }
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=None, help="a temporary folder by default")
    folder = parser.parse_args().output or Path(tempfile.mkdtemp(prefix="onnxsmith-"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "small.onnx"
    onnx.save(onnx.parser.parse_model(SMALL), path)

    # A pass by itself: what a test of it does. It changes the model that it is given.
    model = onnxsmith.load(path)
    result = ExactReciprocal().run(model)
    print(f"{result.changes} change: {', '.join(node.op_type for node in model.ir.graph)}")
    for note in result.notes:
        print(f"  not {note.node}: {note.reason}")

    # By its name, checked and compared like our own: for this the package is installed.
    if not any(point.name == ExactReciprocal.name for point in entry_points(group="onnxsmith.passes")):
        print("not installed: pip install ./examples/05_plugin_pass")
        return
    report = onnxsmith.optimize(path, folder / "out.onnx", passes=["exact-reciprocal{most_elements=16}"])
    print(f"{report.passes[0].name}: {report.passes[0].changes} change, outputs agree: {report.verification.agree}")


if __name__ == "__main__":
    main()
