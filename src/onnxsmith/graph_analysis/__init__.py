"""What is in a graph: the inspector, shapes, counts, patterns that runtimes fuse, and charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxsmith.lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxsmith.graph_analysis.graph_inspector import GraphInspector
    from onnxsmith.graph_analysis.model_report import (
        ExternalFile,
        FunctionInfo,
        InitializerInfo,
        ModelReport,
        NodeInfo,
        Opportunity,
        WeightTotals,
    )
    from onnxsmith.graph_analysis.node_counter import CountComparison, NodeCounter, OperatorRow, Reduction
    from onnxsmith.graph_analysis.patterns import PatternMatch, find_patterns
    from onnxsmith.graph_analysis.shape_analyzer import DynamicDim, ShapeAnalyzer, ShapeReport

_HOMES = {
    "CountComparison": "node_counter",
    "DynamicDim": "shape_analyzer",
    "ExternalFile": "model_report",
    "FunctionInfo": "model_report",
    "GraphInspector": "graph_inspector",
    "InitializerInfo": "model_report",
    "ModelReport": "model_report",
    "NodeCounter": "node_counter",
    "NodeInfo": "model_report",
    "OperatorRow": "node_counter",
    "Opportunity": "model_report",
    "PatternMatch": "patterns",
    "Reduction": "node_counter",
    "ShapeAnalyzer": "shape_analyzer",
    "ShapeReport": "shape_analyzer",
    "WeightTotals": "model_report",
    "find_patterns": "patterns",
}

__all__ = [
    "CountComparison",
    "DynamicDim",
    "ExternalFile",
    "FunctionInfo",
    "GraphInspector",
    "InitializerInfo",
    "ModelReport",
    "NodeCounter",
    "NodeInfo",
    "OperatorRow",
    "Opportunity",
    "PatternMatch",
    "Reduction",
    "ShapeAnalyzer",
    "ShapeReport",
    "WeightTotals",
    "find_patterns",
]

__getattr__ = lazy_names(__name__, _HOMES)
