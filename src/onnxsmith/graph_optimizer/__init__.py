"""The graph optimiser: passes, pipelines, outside optimisers, ONNX Runtime's levels, and what they did to the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxsmith.lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxsmith.graph_optimizer.constant_folder import ConstantFolder, FoldingComparison, FoldingReport
    from onnxsmith.graph_optimizer.editor import Editor
    from onnxsmith.graph_optimizer.fusion_analyzer import FusionAnalyzer, FusionComparison, FusionReport
    from onnxsmith.graph_optimizer.optimization_pipeline import OptimizationPipeline
    from onnxsmith.graph_optimizer.optimization_report import LevelResult, OptimizationReport, log_report
    from onnxsmith.graph_optimizer.optimize_report import OptimizeReport
    from onnxsmith.graph_optimizer.optimizer import Optimizer
    from onnxsmith.graph_optimizer.passes.base import Note, Pass, PassResult
    from onnxsmith.graph_optimizer.passes.rules import GraphPass, RulePass

_HOMES = {
    "ConstantFolder": "constant_folder",
    "Editor": "editor",
    "FoldingComparison": "constant_folder",
    "FoldingReport": "constant_folder",
    "FusionAnalyzer": "fusion_analyzer",
    "FusionComparison": "fusion_analyzer",
    "FusionReport": "fusion_analyzer",
    "GraphPass": "passes.rules",
    "LevelResult": "optimization_report",
    "Note": "passes.base",
    "OptimizationPipeline": "optimization_pipeline",
    "OptimizationReport": "optimization_report",
    "OptimizeReport": "optimize_report",
    "Optimizer": "optimizer",
    "Pass": "passes.base",
    "PassResult": "passes.base",
    "RulePass": "passes.rules",
    "log_report": "optimization_report",
}

__all__ = [
    "ConstantFolder",
    "Editor",
    "FoldingComparison",
    "FoldingReport",
    "FusionAnalyzer",
    "FusionComparison",
    "FusionReport",
    "GraphPass",
    "LevelResult",
    "Note",
    "OptimizationPipeline",
    "OptimizationReport",
    "OptimizeReport",
    "Optimizer",
    "Pass",
    "PassResult",
    "RulePass",
    "log_report",
]

__getattr__ = lazy_names(__name__, _HOMES)
