"""What is in a graph: the inspector, shapes, counts, patterns that runtimes fuse, and charts."""

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
