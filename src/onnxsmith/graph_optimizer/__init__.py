"""ONNX Runtime's optimisation levels, and what they did to the graph.

Names are resolved when they are first used: the child processes that start from here stay light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxsmith.graph_optimizer.constant_folder import ConstantFolder, FoldingComparison, FoldingReport
    from onnxsmith.graph_optimizer.fusion_analyzer import FusionAnalyzer, FusionComparison, FusionReport
    from onnxsmith.graph_optimizer.optimization_pipeline import OptimizationPipeline
    from onnxsmith.graph_optimizer.optimization_report import LevelResult, OptimizationReport, log_report

_HOMES = {
    "ConstantFolder": "constant_folder",
    "FoldingComparison": "constant_folder",
    "FoldingReport": "constant_folder",
    "FusionAnalyzer": "fusion_analyzer",
    "FusionComparison": "fusion_analyzer",
    "FusionReport": "fusion_analyzer",
    "LevelResult": "optimization_report",
    "OptimizationPipeline": "optimization_pipeline",
    "OptimizationReport": "optimization_report",
    "log_report": "optimization_report",
}

__all__ = [
    "ConstantFolder",
    "FoldingComparison",
    "FoldingReport",
    "FusionAnalyzer",
    "FusionComparison",
    "FusionReport",
    "LevelResult",
    "OptimizationPipeline",
    "OptimizationReport",
    "log_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'onnxsmith.graph_optimizer' has no attribute '{name}'")
    return getattr(importlib.import_module(f"onnxsmith.graph_optimizer.{_HOMES[name]}"), name)
