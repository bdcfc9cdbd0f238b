"""The ONNX model as everything here sees it: load, save, external data, digest, dimensions, sample inputs.

Names are resolved when they are first used: the child processes that start from here stay light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxsmith.lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxsmith.model.checking import Checking
    from onnxsmith.model.dims import ResolvedDims, resolve_dims
    from onnxsmith.model.feeds import check_feeds
    from onnxsmith.model.model import Model
    from onnxsmith.model.native import NativeAnalysis, analyse_native, check_native, start_check
    from onnxsmith.model.sampling import sample_inputs
    from onnxsmith.model.saving import staged_folder
    from onnxsmith.model.specs import Dim, TensorSpec

_HOMES = {
    "Checking": "checking",
    "Dim": "specs",
    "Model": "model",
    "NativeAnalysis": "native",
    "ResolvedDims": "dims",
    "TensorSpec": "specs",
    "analyse_native": "native",
    "check_feeds": "feeds",
    "check_native": "native",
    "resolve_dims": "dims",
    "sample_inputs": "sampling",
    "staged_folder": "saving",
    "start_check": "native",
}

__all__ = [
    "Checking",
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
    "start_check",
]

__getattr__ = lazy_names(__name__, _HOMES)
