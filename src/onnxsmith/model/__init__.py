"""The ONNX model as everything here sees it: load, save, external data, digest, dimensions, sample inputs."""

from onnxsmith.model.dims import ResolvedDims, resolve_dims
from onnxsmith.model.feeds import check_feeds
from onnxsmith.model.model import Model
from onnxsmith.model.native import NativeAnalysis, analyse_native, check_native
from onnxsmith.model.sample_inputs import sample_inputs
from onnxsmith.model.saving import staged_folder
from onnxsmith.model.specs import Dim, TensorSpec

__all__ = [
    "Dim",
    "Model",
    "NativeAnalysis",
    "ResolvedDims",
    "TensorSpec",
    "analyse_native",
    "check_feeds",
    "check_native",
    "resolve_dims",
    "sample_inputs",
    "staged_folder",
]
