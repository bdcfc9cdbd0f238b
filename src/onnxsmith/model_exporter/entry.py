"""The one way in for the command line, the Python API and the lifecycle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxsmith.config import Config
from onnxsmith.model_exporter.pytorch_exporter import PyTorchExport, PyTorchExporter
from onnxsmith.model_exporter.sklearn_exporter import SklearnExport, SklearnExporter
from onnxsmith.model_exporter.training import train_simple_cnn
from onnxsmith.records import Progress, no_progress

if TYPE_CHECKING:
    import torch


def export_pytorch_module(
    module: torch.nn.Module | str | None,
    path: Path,
    example_inputs: Any = None,
    *,
    config: Config,
    progress: Progress = no_progress,
) -> PyTorchExport:
    """Exports a PyTorch module.

    Args:
        module: The module, or `package.module:factory`; None takes the configuration's, which by default is SimpleCNN,
            trained on digits.
        path: Where the ONNX file goes.
        example_inputs: As for `PyTorchExporter.export`.
        config: `export`, `limits` and `seed` are used.
        progress: Told of the steps.

    Raises:
        OnnxsmithError: As `PyTorchExporter.export`.
    """
    settings = config.export.pytorch
    if isinstance(module, str):
        settings = settings.model_copy(update={"module": module})
    exporter = PyTorchExporter(settings, limits=config.limits, seed=config.seed)
    if module is None and settings.module is None:
        module = train_simple_cnn(config.export.training, config.seed, progress).module
    if module is None or isinstance(module, str):
        return exporter.export_from_config(path, progress, example_inputs)
    return exporter.export(module, path, example_inputs, progress=progress)


def export_sklearn_estimator(
    estimator: Any,
    path: Path,
    *,
    sample: Any = None,
    trust_pickle: bool = False,
    config: Config,
    progress: Progress = no_progress,
) -> SklearnExport:
    """Exports a fitted scikit-learn estimator.

    Args:
        estimator: The estimator, `package.module:factory`, or a pickle's path; None takes the configuration's, which by
            default is the example pipeline.
        path: Where the ONNX file goes.
        sample: Rows to compare on, as for `SklearnExporter.export`.
        trust_pickle: Allow a pickle, which can run any code as it loads.
        config: `export`, `limits` and `seed`.
        progress: Told of the steps.

    Raises:
        OnnxsmithError: As `SklearnExporter.export`.
    """
    settings = config.export.sklearn
    if isinstance(estimator, str | Path):
        settings = settings.model_copy(update={"estimator": str(estimator)})
    exporter = SklearnExporter(settings, limits=config.limits, seed=config.seed)
    if estimator is None or isinstance(estimator, str | Path):
        return exporter.export_from_config(path, sample=sample, trust_pickle=trust_pickle, progress=progress)
    return exporter.export(estimator, path, sample=sample, progress=progress)
