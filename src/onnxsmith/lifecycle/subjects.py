"""What the lifecycle runs on: the two exported examples, or the user's own model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxsmith.config import Config, PyTorchConfig
from onnxsmith.errors import ConfigError
from onnxsmith.inference_engine.classification import softmax
from onnxsmith.model import Model
from onnxsmith.model_exporter import PyTorchExport, PyTorchExporter, SklearnExport, SklearnExporter
from onnxsmith.model_exporter.training import EpochResult, train_or_reuse
from onnxsmith.records import Progress

CNN = "cnn_model"
UNFOLDED = "cnn_model_unfolded"
PIPELINE = "sklearn_pipeline"

OWN_FILE = "optimized_onnxsmith.onnx"
"""The file with what our own optimiser made of a subject, in its folder."""


@dataclass(frozen=True)
class HeldOut:
    """Samples that were not trained on, with the framework's own answers.

    Attributes:
        framework: "PyTorch" or "scikit-learn".
        samples: float32 [n, …], for the model's first input.
        labels: Their true classes, int64 [n].
        probabilities: The framework's, float [n, classes].
        images: Whether the samples are images, [n, 1, height, width].
    """

    framework: str
    samples: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    probabilities: np.ndarray[Any, Any]
    images: bool


@dataclass(frozen=True)
class Subject:
    """A model that goes through the lifecycle.

    Attributes:
        label: Its label.
        title: What it is, in words.
        model: The model.
        folder: Where its optimised models go.
        export: How it was exported, or None.
        held_out: Held-out samples, or None.
        training: A row an epoch, for SimpleCNN.
    """

    label: str
    title: str
    model: Model
    folder: Path
    export: PyTorchExport | SklearnExport | None = None
    held_out: HeldOut | None = None
    training: tuple[EpochResult, ...] = ()


def make_subjects(config: Config, progress: Progress) -> list[Subject]:
    """Exports the examples, or loads the model that the configuration names.

    Raises:
        ConfigError: The named model is one that the run itself would overwrite.
        OnnxsmithError: Whatever exporting or loading raises.
    """
    if config.model is not None:
        model = Model.load(config.model)
        label = config.model.stem
        ours = config.model.name.startswith(("optimized_ORT_", OWN_FILE))
        if ours and _same(config.model.parent, config.paths.models):
            raise ConfigError(
                f"{config.model}: is where the run writes its own results.", "Copy it elsewhere, or set paths.models."
            )
        return [Subject(label, f"{config.model}", model, config.paths.models)]
    return [*_pytorch(config, progress), _sklearn(config, progress)]


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _pytorch(config: Config, progress: Progress) -> list[Subject]:
    path, settings = config.paths.models / f"{CNN}.onnx", config.export.pytorch
    if settings.module is not None:
        exporter = PyTorchExporter(settings, limits=config.limits, seed=config.seed)
        export = exporter.export_from_config(path, progress)
        return [Subject(CNN, f"{settings.module}, from PyTorch", Model.load(path), config.paths.models, export)]
    trained = train_or_reuse(config.export.training, config.seed, config.paths.models, progress)
    import torch

    with torch.no_grad():
        logits = trained.module(torch.from_numpy(trained.images)).numpy()
    held_out = HeldOut("PyTorch", trained.images, trained.labels, softmax(logits), images=True)

    def export_cnn(
        label: str, title: str, folder: Path, settings: PyTorchConfig, training: tuple[EpochResult, ...] = ()
    ) -> Subject:
        file = config.paths.models / f"{label}.onnx"
        exporter = PyTorchExporter(settings, limits=config.limits, seed=config.seed)
        export = exporter.export(trained.module, file, progress=progress)
        return Subject(label, title, Model.load(file), folder, export, held_out, training)

    title = "SimpleCNN, trained on scikit-learn's digits with PyTorch"
    subjects = [export_cnn(CNN, title, config.paths.models, settings, trained.history)]
    if settings.constant_folding:
        # PyTorch's folding takes the BatchNorms into the convolutions, and leaves nothing to see of it.
        title = "The same SimpleCNN, exported without folding: what the runtime's levels do themselves"
        unfolded = settings.model_copy(update={"constant_folding": False})
        subjects.append(export_cnn(UNFOLDED, title, config.paths.models / UNFOLDED, unfolded))
    return subjects


def _sklearn(config: Config, progress: Progress) -> Subject:
    path, folder = config.paths.models / f"{PIPELINE}.onnx", config.paths.models / PIPELINE
    exporter = SklearnExporter(config.export.sklearn, limits=config.limits, seed=config.seed)
    if config.export.sklearn.estimator is not None:
        export = exporter.export_from_config(path, progress=progress)
        title = f"{config.export.sklearn.estimator}, from scikit-learn"
        return Subject(PIPELINE, title, Model.load(path), folder, export)
    progress("fitting the scikit-learn pipeline", 0, 1)
    example = exporter.example()
    samples = example.x_test.astype(np.float32)
    export = exporter.export(example.estimator, path, sample=samples, labels=example.y_test, progress=progress)
    return Subject(
        PIPELINE,
        "StandardScaler and LogisticRegression, fitted with scikit-learn",
        Model.load(path),
        folder,
        export,
        HeldOut("scikit-learn", samples, example.y_test, example.estimator.predict_proba(samples), images=False),
    )
