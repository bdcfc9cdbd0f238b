"""Accuracy on held-out samples: the framework, the exported model, and what optimisers made of it, sample by sample."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnxsmith.config import Config, Level
from onnxsmith.inference_engine.classification import probabilities, top_classes
from onnxsmith.inference_engine.ort_inference import run_models
from onnxsmith.lifecycle.records import Accuracy, AccuracyRow, ExampleAnswer
from onnxsmith.lifecycle.subjects import HeldOut
from onnxsmith.model import Model


def compare_accuracy(
    model: Model, optimized: Mapping[str, Path], held_out: HeldOut, config: Config
) -> tuple[Accuracy, np.ndarray[Any, Any]]:
    """Runs the exported model and its optimised forms on the held-out samples.

    Args:
        model: The exported model, run at the configured level.
        optimized: The files of its optimised forms by name, each run as it is.
        held_out: The samples, with the framework's own probabilities.
        config: `inference` and `limits` are used.

    Returns:
        The comparison, and the exported model's probabilities, float64 [samples, classes].
    """
    assert model.path is not None
    as_it_is: Level = "ORT_DISABLE_ALL"
    files = [(model.path, config.inference.optimization_level), *((path, as_it_is) for path in optimized.values())]
    feed = {model.inputs[0].name: held_out.samples}
    exported, *others = map(_class_probabilities, run_models(files, feed, limits=config.limits))
    tables = {
        held_out.framework: held_out.probabilities,
        model.path.stem: exported,
        **dict(zip(optimized, others, strict=True)),
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


def _class_probabilities(outputs: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """The probabilities in a classifier's outputs: its last one of shape [samples, classes]."""
    return probabilities([value for value in outputs.values() if isinstance(value, np.ndarray) and value.ndim == 2][-1])


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
