"""Export from PyTorch and scikit-learn, and the training of the example network."""

from onnxsmith.model_exporter.entry import export_pytorch_module, export_sklearn_estimator
from onnxsmith.model_exporter.pytorch_exporter import PyTorchExport, PyTorchExporter
from onnxsmith.model_exporter.sklearn_exporter import SklearnExport, SklearnExporter

__all__ = [
    "PyTorchExport",
    "PyTorchExporter",
    "SklearnExport",
    "SklearnExporter",
    "export_pytorch_module",
    "export_sklearn_estimator",
]
