"""Whether a result computes what the original did: ONNX Runtime with optimisation off, on sampled inputs.

Usage: checking.py ORIGINAL RESULT [NAME=SIZE …]; a process of its own, because a wrong model can take it down.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import onnxruntime as ort

import onnxsmith
from onnxsmith.model import resolve_dims, sample_inputs

TOLERANCE = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-6}
"""The largest difference allowed, over the largest finite magnitude of the output."""


def open_session(path):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def samples(path, asked):
    """Feeds: two seeds with the sizes asked for or taken by default, and one with every other dimension one larger."""
    model = onnxsmith.load(path)
    dims = resolve_dims(model.inputs, asked)
    feeds = [sample_inputs(model, dims, seed) for seed in (0, 1)]
    larger = {key: size + (key not in asked) for key, size in dims.sizes.items()}
    if larger != dict(dims.sizes):
        feeds.append(sample_inputs(model, resolve_dims(model.inputs, larger), 2))
    return feeds


def difference(expected, got):
    """Why two outputs differ, or None; and the largest difference over the magnitude."""
    if isinstance(expected, list):
        if len(expected) != len(got):
            return f"{len(got)} elements, not {len(expected)}", None
        pairs = [difference(a, b) for a, b in zip(expected, got, strict=True)]
        return next((pair for pair in pairs if pair[0]), (None, max((p[1] or 0.0 for p in pairs), default=0.0)))
    if not isinstance(expected, np.ndarray):
        return (None, 0.0) if expected == got else ("values differ", None)
    if expected.dtype != got.dtype or expected.shape != got.shape:
        return f"{got.dtype}{list(got.shape)}, not {expected.dtype}{list(expected.shape)}", None
    if expected.dtype.name not in TOLERANCE:
        return (None, 0.0) if np.array_equal(expected, got) else ("values differ", None)
    a, b = expected.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(b[finite]).all():
        return "NaN or infinity at other places", None
    if not finite.any():
        return None, 0.0
    error = float(np.abs(a - b)[finite].max() / max(np.abs(a[finite]).max(), np.finfo(np.float32).tiny))
    return (None if error <= TOLERANCE[expected.dtype.name] else f"differs by {error:.1e} of the range"), error


def check(original, result, asked):
    reference, worst, ran = open_session(original), 0.0, 0
    try:
        session = open_session(result)
    except Exception as error:  # noqa: BLE001 - anything can come out of a foreign model
        return {"ok": False, "why": f"does not load: {str(error)[:300]}"}
    for feeds in samples(original, asked):
        try:
            expected = reference.run(None, feeds)
        except Exception:  # noqa: BLE001 - the original does not take these sizes
            continue
        if any(difference(a, b)[0] for a, b in zip(expected, reference.run(None, feeds), strict=True)):
            return {"ok": None, "why": "the original is random"}
        ran += 1
        try:
            got = session.run([output.name for output in reference.get_outputs()], feeds)
        except Exception as error:  # noqa: BLE001 - anything can come out of a foreign model
            return {"ok": False, "why": f"does not run: {str(error)[:300]}"}
        for output, a, b in zip(reference.get_outputs(), expected, got, strict=True):
            why, error = difference(a, b)
            if why:
                return {"ok": False, "why": f"{output.name}: {why}"}
            worst = max(worst, error)
    return {"ok": True if ran else None, "why": None if ran else "the original did not run", "error": worst}


if __name__ == "__main__":
    sizes = {name: int(size) for name, size in (item.split("=") for item in sys.argv[3:])}
    print(json.dumps(check(sys.argv[1], sys.argv[2], sizes)))
