"""Latency in ONNX Runtime's default session: all models in one process, rounds in turns.

Usage: latency.py ROUNDS FILE_OF_JSON; the file has `models` (path by label, "original" first) and `dims`. A turn is as
many runs as the original makes in a twentieth of a second; a round is a turn each, and the order moves on by one.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

import onnxsmith
from onnxsmith.model import resolve_dims, sample_inputs

TURN_S = 0.05
MOST_RUNS = 200


def open_session(path):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    # Idle threads that spin after one session's run would slow the next session's.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def turn(session, feeds, runs):
    """Milliseconds a run: the median of a few; the first, which finds the caches cold, does not count."""
    session.run(None, feeds)
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1000


def main():
    rounds, job = int(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    model = onnxsmith.load(job["models"]["original"])
    feeds = sample_inputs(model, resolve_dims(model.inputs, job["dims"]))
    sessions, failed = {}, {}
    for label, path in job["models"].items():
        try:
            sessions[label] = open_session(path)
            sessions[label].run(None, feeds)
        except Exception as error:  # noqa: BLE001 - anything can come out of a foreign model
            sessions.pop(label, None)
            failed[label] = str(error)[:300]
    if "original" in failed:
        print(json.dumps({"failed": f"the original does not run: {failed['original']}"}))
        return
    runs = min(MOST_RUNS, max(1, int(TURN_S * 1000 / turn(sessions["original"], feeds, 3))))
    labels = list(sessions)
    times = {label: [] for label in labels}
    for index in range(rounds):
        first = index % len(labels)
        for label in labels[first:] + labels[:first]:
            times[label].append(turn(sessions[label], feeds, runs))
    random = np.random.default_rng(0)
    result = {}
    for label in labels:
        ratios = np.asarray(times[label]) / np.asarray(times["original"])
        medians = np.median(ratios[random.integers(0, rounds, (2000, rounds))], axis=1)
        result[label] = {
            "ms": float(np.median(times[label])),
            "ratio": float(np.median(ratios)),
            "p10_p90": [float(value) for value in np.percentile(ratios, (10, 90))],
            "interval_95": [float(value) for value in np.percentile(medians, (2.5, 97.5))],
        }
    print(json.dumps(result | {label: {"failed": why} for label, why in failed.items()}))


if __name__ == "__main__":
    main()
