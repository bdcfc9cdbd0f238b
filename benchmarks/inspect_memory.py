"""Peak memory of `onnxsmith inspect` on a model with 1.5 GB of external weights."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH = 24, 4096

LAUNCHER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Prints the peak of the largest process below it: the command, or the child that it checks the model in."""


def write_model(folder: Path) -> Path:
    """A chain of MatMuls; its weights are real bytes, so that nothing is saved by a sparse file."""
    nodes, weights = [], []
    random = np.random.default_rng(0)
    with (folder / "weights.bin").open("wb") as file:
        for layer in range(LAYERS):
            tensor = TensorProto(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH])
            tensor.data_location = TensorProto.EXTERNAL
            size = WIDTH * WIDTH * 4
            for key, value in (("location", "weights.bin"), ("offset", layer * size), ("length", size)):
                tensor.external_data.add(key=key, value=str(value))
            file.write(random.bytes(size))
            weights.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"x{layer}", f"w{layer}"], [f"x{layer + 1}"], f"matmul{layer}"))
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", WIDTH]) for n in ("x0", f"x{LAYERS}"))
    weights.append(numpy_helper.from_array(np.zeros(1, np.float32), "unused"))
    graph = helper.make_graph(nodes, "chain", [x], [y], weights)
    path = folder / "model.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    onnx.load(path, load_external_data=False)
    return path


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = write_model(Path(folder))
        external = path.with_name("weights.bin").stat().st_size
        command = [sys.executable, "-m", "onnxsmith", "inspect", str(path), "--output-format", "json"]
        # A small process in between: a peak is inherited by what a process starts.
        done = subprocess.run([sys.executable, "-c", LAUNCHER, *command], capture_output=True, text=True, check=True)
    *lines, peak = done.stdout.splitlines()
    report = json.loads("\n".join(lines))
    print(
        json.dumps(
            {
                "external_gb": round(external / 2**30, 2),
                "parameters": report["totals"]["parameters"],
                "peak_mb_largest_process": round(int(peak) / 1024, 1),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
