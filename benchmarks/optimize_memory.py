"""Peak of own memory of `onnxsmith optimize` on a model with 3 GB of external weights: what no file stands behind.

Thirty products with a matrix of 100 MB each; a third of the weights is transposed, some are passed through an Identity,
and some products are scaled, which goes into the weights.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, LAYERS = 5000, 30
NBYTES = WIDTH * WIDTH * 4


def write_model(path):
    block = np.random.default_rng(0).standard_normal((WIDTH, WIDTH), np.float32) * 0.01
    with Path(f"{path}.data").open("wb") as stream:
        for layer in range(LAYERS):
            stream.write((block * np.float32(1 + layer / 100)).data)
    nodes, initializers, x = [], [], "x"

    def add(operator, inputs, output, **attributes):
        nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    for layer in range(LAYERS):
        weight = TensorProto(
            name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH], data_location=TensorProto.EXTERNAL
        )
        for key, value in (("location", f"{path.name}.data"), ("offset", layer * NBYTES), ("length", NBYTES)):
            weight.external_data.add(key=key, value=str(value))
        initializers += [weight, numpy_helper.from_array(np.full(WIDTH, 0.1, np.float32), f"b{layer}")]
        w = add("Transpose", [weight.name], f"wt{layer}", perm=[1, 0]) if layer % 3 == 0 else weight.name
        w = add("Identity", [w], f"wi{layer}") if layer % 5 == 1 else w
        x = add("Add", [add("MatMul", [x, w], f"m{layer}"), f"b{layer}"], f"a{layer}")
        if layer % 7 == 2:
            initializers.append(numpy_helper.from_array(np.float32(0.5), f"s{layer}"))
            x = add("Mul", [x, f"s{layer}"], f"s{layer}x")
        x = add("Relu", [x], f"r{layer}")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def family(pid):
    found = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found += family(int(child))
    return found


def own_memory(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)


def peak_of(command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    peak = 0
    while process.poll() is None:
        with contextlib.suppress(OSError):  # one of them has just ended
            peak = max(peak, sum(map(own_memory, family(process.pid))))
        time.sleep(0.01)
    report = json.loads(process.stdout.read())
    return peak / 1024, report


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.onnx"
        write_model(path)
        command = [sys.executable, "-m", "onnxsmith", "optimize", path, "-o", Path(folder) / "out" / "large.onnx"]
        peak, report = peak_of([*map(str, command), "--no-verify", "--output-format", "json"])
        print(
            json.dumps(
                {
                    "own_memory_peak_mb": round(peak),
                    "model_mb": round(report["size_before"] / 2**20),
                    "nodes": [report["nodes_before"], report["nodes_after"]],
                }
            )
        )


if __name__ == "__main__":
    main()
