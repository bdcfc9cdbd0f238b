"""How the cost of `onnxsmith optimize` grows with the nodes: whole-process time on graphs ten times as large each.

Three graphs: a chain and a balanced tree in which nothing can be simplified, and a chain of which most can go.
`ratio` is the time over that of the graph a tenth as large: 10 is linear, and what the process costs before it
meets a node makes it less; so `us_per_node` is of the time over that of a chain of four.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

WIDTH = 4


def chain(size):
    """Unary operators and Muls of distinct constants, in turn."""
    nodes, weights = [], []
    for index in range(size):
        inputs = [f"x{index}"]
        if index % 4 == 3:
            inputs.append(f"c{index}")
            weights.append(constant(inputs[1], 1.0 + index / size))
        operator = ("Sin", "Sigmoid", "Tanh", "Mul")[index % 4]
        nodes.append(helper.make_node(operator, inputs, [f"x{index + 1}"], f"n{index}"))
    return model(nodes, f"x{size}", weights)


def tree(size):
    """A balanced tree of Adds over leaves that each multiply the input by another constant."""
    leaves = (size + 1) // 2
    weights = [constant(f"c{index}", 1.0 + index / size) for index in range(leaves)]
    nodes = [helper.make_node("Mul", ["x0", f"c{index}"], [f"t{index}"], f"n{index}") for index in range(leaves)]
    for index in range(leaves - 1):
        inputs = [f"t{2 * index}", f"t{2 * index + 1}"]
        nodes.append(helper.make_node("Add", inputs, [f"t{leaves + index}"], f"n{leaves + index}"))
    return model(nodes, f"t{2 * leaves - 2}", weights)


def foldable(size):
    """One Sin in ten; nine no-ops, duplicates, and arithmetic of shapes and constants between."""
    nodes = []

    def add(operator, inputs, **attributes):
        nodes.append(helper.make_node(operator, inputs, [f"v{len(nodes)}"], f"n{len(nodes)}", **attributes))
        return f"v{len(nodes) - 1}"

    x = "x0"
    for _ in range(size // 10):
        same = add("Identity", [add("Sin", [x])])
        back = add("Transpose", [add("Transpose", [same], perm=[1, 0])], perm=[1, 0])
        first = add("Gather", [add("Shape", [back]), "zero"], axis=0)
        shape = add("Concat", [first, "width"], axis=0)
        x = add("Mul", [add("Reshape", [back, shape]), add("Add", ["half", "half"])])
    weights = [numpy_helper.from_array(np.array([value], np.int64), name) for name, value in SIZES.items()]
    return model(nodes, x, [*weights, numpy_helper.from_array(np.array(0.5, np.float32), "half")])


SIZES = {"zero": 0, "width": WIDTH}
GRAPHS = {"chain": chain, "tree": tree, "foldable": foldable}


def constant(name, value):
    return numpy_helper.from_array(np.full(WIDTH, value, np.float32), name)


def model(nodes, output, weights):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in ("x0", output))
    graph = helper.make_graph(nodes, "growth", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def seconds(source, target, rounds):
    command = [sys.executable, "-m", "onnxsmith", "optimize", str(source), "-o", str(target), "--no-verify"]
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        times.append(time.perf_counter() - start)
        if done.returncode:
            sys.exit(f"onnxsmith failed on {source.name}:\n{done.stderr[-2000:]}")
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", default=",".join(GRAPHS), help=f"of {','.join(GRAPHS)}")
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.onnx", Path(folder) / "out.onnx"
        source.write_bytes(chain(4).SerializeToString())
        start = seconds(source, target, arguments.rounds)
        for name in arguments.graphs.split(","):
            before = None
            for size in map(int, arguments.sizes.split(",")):
                source = Path(folder) / f"{name}_{size}.onnx"
                source.write_bytes(GRAPHS[name](size).SerializeToString())
                taken = seconds(source, target, arguments.rounds)
                row = {
                    "graph": name,
                    "nodes": size,
                    "seconds": round(taken, 3),
                    "us_per_node": round((taken - start) / size * 1e6, 1),
                    "ratio": round(taken / before, 2) if before else None,
                }
                print(json.dumps(row), flush=True)
                before = taken


if __name__ == "__main__":
    main()
