"""Our benchmark beside a bare ONNX Runtime loop on the same model, in turns.

The bare loop does what onnxruntime_perf_test does: one session with default options, inputs and outputs bound once,
and nothing but the run between two readings of the clock. A round is one of ours and one of theirs, each in a fresh
process; the figure is the median over rounds of the ratio of their p50s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

import onnxsmith
from onnxsmith.model import resolve_dims, sample_inputs

BARE = """
import json, sys, time
import numpy as np, onnxruntime as ort
path, feeds, warmup, runs = sys.argv[1], np.load(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
binding = session.io_binding()
for name in feeds.files:
    binding.bind_cpu_input(name, feeds[name])
for output in session.get_outputs():
    binding.bind_output(output.name)
times = []
for index in range(warmup + runs):
    start = time.perf_counter()
    session.run_with_iobinding(binding)
    if index >= warmup:
        times.append((time.perf_counter() - start) * 1000)
print(json.dumps(times))
"""


def bare_p50(path, feeds_file, warmup, runs):
    command = [sys.executable, "-c", BARE, path, feeds_file, str(warmup), str(runs)]
    times = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return statistics.median(times)


def main():
    import tempfile
    from pathlib import Path

    import numpy as np

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--runs", type=int, default=50)
    arguments = parser.parse_args()
    for path in arguments.models:
        model = onnxsmith.load(path)
        dims = resolve_dims(model.inputs)
        with tempfile.TemporaryDirectory() as folder:
            feeds = Path(folder) / "feeds.npz"
            np.savez(feeds, **sample_inputs(model, dims))
            rounds = []
            for _ in range(arguments.rounds):
                (ours,) = onnxsmith.benchmark(model, batch_sizes=[1], runs=arguments.runs).results
                rounds.append((ours.p50_latency_ms, bare_p50(path, str(feeds), 10, arguments.runs)))
        ratios = sorted(ours / bare for ours, bare in rounds)
        bare = sorted(bare for _, bare in rounds)
        print(
            json.dumps(
                {
                    "model": Path(path).name,
                    "ratio_of_p50": round(statistics.median(ratios), 3),
                    "ratio_range": [round(ratios[0], 3), round(ratios[-1], 3)],
                    "bare_p50_ms": round(statistics.median(bare), 4),
                    "bare_spread": round(bare[-1] / bare[0], 3),
                    "rounds": arguments.rounds,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
