"""Accuracy on held-out samples: the framework, the exported model, and every level, sample by sample."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnxsmith.config import Config
from onnxsmith.inference_engine.classification import probabilities, top_classes
from onnxsmith.inference_engine.ort_inference import run_model
from onnxsmith.lifecycle.records import Accuracy, AccuracyRow, ExampleAnswer
from onnxsmith.lifecycle.subjects import HeldOut
from onnxsmith.model import Model


def class_probabilities(model: Model, path: Path, held_out: HeldOut, config: Config) -> np.ndarray[Any, Any]:
    """A model's probabilities for the held-out samples: its last output of shape [samples, classes].

    Args:
        model: The exported model, whose inputs are asked.
        path: The file to run: its own, or that of a level.
        held_out: The samples.
        config: `inference` and `limits` are used.
    """
    level = config.inference.optimization_level if path == model.path else "ORT_DISABLE_ALL"
    feeds = {model.inputs[0].name: held_out.samples}
    (outputs,) = run_model(path, [feeds], level=level, limits=config.limits)
    classes = [value for value in outputs.values() if isinstance(value, np.ndarray) and value.ndim == 2]
    return probabilities(classes[-1])


def compare_accuracy(
    model: Model, levels: Mapping[str, Path], held_out: HeldOut, config: Config
) -> tuple[Accuracy, np.ndarray[Any, Any]]:
    """Runs the exported model and its levels on the held-out samples.

    Returns:
        The comparison, and the exported model's probabilities, float64 [samples, classes].
    """
    assert model.path is not None
    exported = class_probabilities(model, model.path, held_out, config)
    tables = {
        held_out.framework: held_out.probabilities,
        model.path.stem: exported,
        **{label: class_probabilities(model, path, held_out, config) for label, path in levels.items()},
    }
    answers = held_out.probabilities.argmax(axis=1)
    rows = tuple(
        AccuracyRow(
            label=label,
            accuracy=float(np.mean(table.argmax(axis=1) == held_out.labels)),
            same=int(np.sum(table.argmax(axis=1) == answers)),
            max_probability_error=float(np.abs(table - held_out.probabilities).max()),
        )
        for label, table in tables.items()
    )
    return Accuracy(framework=held_out.framework, samples=len(held_out.labels), rows=rows), exported


def example_answer(held_out: HeldOut, exported: np.ndarray[Any, Any], top_k: int, sample: int = 0) -> ExampleAnswer:
    """One held-out sample with the framework's answer beside ONNX Runtime's."""
    image = held_out.samples[sample, 0] if held_out.images else None
    return ExampleAnswer(
        sample=sample,
        label=int(held_out.labels[sample]),
        image=tuple(tuple(float(pixel) for pixel in row) for row in image) if image is not None else None,
        framework=top_classes(held_out.probabilities[sample : sample + 1], top_k)[0],
        onnx=top_classes(exported[sample : sample + 1], top_k)[0],
    )
