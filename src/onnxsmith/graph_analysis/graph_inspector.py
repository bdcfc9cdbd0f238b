"""The inspector: everything a model says about itself, and what stands out in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import onnx_ir as ir

from onnxsmith.config import LimitsConfig
from onnxsmith.graph_analysis.attribute_values import attribute_value
from onnxsmith.graph_analysis.matching import default_domain
from onnxsmith.graph_analysis.model_report import (
    ExternalFile,
    FunctionInfo,
    InitializerInfo,
    ModelReport,
    NodeInfo,
    Opportunity,
    WeightTotals,
)
from onnxsmith.graph_analysis.model_warnings import custom_operators, find_warnings
from onnxsmith.graph_analysis.node_counter import NodeCounter
from onnxsmith.graph_analysis.patterns import PatternMatch, find_patterns
from onnxsmith.graph_analysis.shape_analyzer import interface_dims
from onnxsmith.model import Model, NativeAnalysis, analyse_native
from onnxsmith.model.specs import dtype_name
from onnxsmith.records import Progress, no_progress

_CONSTANT_BYTES = {
    ir.AttributeType.FLOAT: 4,
    ir.AttributeType.FLOATS: 4,
    ir.AttributeType.INT: 8,
    ir.AttributeType.INTS: 8,
}
"""Bytes an element of what a Constant node makes of an attribute that is no tensor."""


class GraphInspector:
    """Describes a model: interface, weights, nodes, opportunities, warnings.

    Weights are described by what the file says of them; their data is not read, but for the digest, in chunks.

    Args:
        model: The model.
        limits: On the child process that checks the model and infers its shapes.
        analysis: What `analyse_native` said of the model, where that was asked before; None asks it.
    """

    def __init__(
        self, model: Model, *, limits: LimitsConfig | None = None, analysis: NativeAnalysis | None = None
    ) -> None:
        self._model = model
        self._limits = limits
        self._analysis = analysis

    def inspect(self, progress: Progress = no_progress) -> ModelReport:
        """Checks the model and describes it.

        Args:
            progress: Told how far the digest is.

        Raises:
            InvalidModelError: The checker refuses the model.
            RuntimeFailure: The child process crashed, or ran past its limits.
        """
        model, graph = self._model, self._model.ir.graph
        analysis = self._analysis or analyse_native(model, self._limits)
        initializers = tuple(_initializers(model))
        nodes = tuple(_nodes(model))
        return ModelReport(
            path=str(model.path) if model.path is not None else None,
            digest=model.digest(progress),
            size_bytes=model.size_bytes,
            external_files=tuple(_external_files(model)),
            ir_version=model.ir.ir_version,
            opsets={domain or "ai.onnx": version for domain, version in model.ir.opset_imports.items()},
            producer_name=model.ir.producer_name or "",
            producer_version=model.ir.producer_version or "",
            domain=model.ir.domain or "",
            model_version=model.ir.model_version or 0,
            doc_string=model.ir.doc_string or "",
            graph_name=graph.name or "",
            metadata=dict(model.ir.metadata_props),
            inputs=model.inputs,
            outputs=model.outputs,
            overridable_initializers=tuple(value.name or "" for value in graph.inputs if value.is_initializer()),
            initializers=initializers,
            totals=_totals(initializers, model.nodes()),
            nodes=nodes,
            node_count=len(nodes),
            main_node_count=len(graph),
            op_counts=NodeCounter(model).counts(),
            functions=tuple(
                FunctionInfo(domain=function.domain, name=function.name, nodes=len(function))
                for function in model.ir.functions.values()
            ),
            custom_operators=custom_operators(model),
            dynamic_dims=interface_dims(model),
            opportunities=tuple(_opportunity(found) for found in find_patterns(model)),
            warnings=find_warnings(model, analysis),
        )


def _external_files(model: Model) -> Iterator[ExternalFile]:
    for file in model.external_files:
        folder = model.path.resolve().parent if model.path is not None else file.parent
        name = file.relative_to(folder) if file.is_relative_to(folder) else file
        yield ExternalFile(name=str(name), bytes=file.stat().st_size)


def _initializers(model: Model) -> Iterator[InitializerInfo]:
    for place, graph in model.graphs():
        for name, value in graph.initializers.items():
            tensor = value.const_value
            if tensor is not None:
                yield InitializerInfo(
                    name=name,
                    shape=tensor.shape.numpy(),
                    elements=tensor.size,
                    dtype=dtype_name(tensor.dtype),
                    bytes=tensor.nbytes,
                    external=isinstance(tensor, ir.ExternalTensor),
                    graph=place,
                )


def _totals(initializers: Iterable[InitializerInfo], nodes: Iterable[ir.Node]) -> WeightTotals:
    by_dtype: Counter[str] = Counter()
    for found in initializers:
        by_dtype[found.dtype] += found.elements
    constants = [
        _constant_size(attribute)
        for node in nodes
        if node.op_type == "Constant" and default_domain(node)
        for attribute in node.attributes.values()
    ]
    initializers = list(initializers)
    return WeightTotals(
        initializers=len(initializers),
        parameters=sum(by_dtype.values()),
        bytes=sum(found.bytes for found in initializers),
        parameters_by_dtype=dict(by_dtype.most_common()),
        constants=len(constants),
        constant_elements=sum(elements for elements, _ in constants),
        constant_bytes=sum(size for _, size in constants),
    )


def _constant_size(attribute: ir.Attr) -> tuple[int, int]:
    """The elements and the bytes of what a Constant node makes of its attribute."""
    if attribute.is_ref():
        return 0, 0
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return tensor.size, tensor.nbytes
    items = list(attribute.value) if attribute.type.name.endswith("S") else [attribute.value]
    if attribute.type in _CONSTANT_BYTES:
        return len(items), len(items) * _CONSTANT_BYTES[attribute.type]
    return len(items), sum(len(item.encode()) for item in items)


def _nodes(model: Model) -> Iterator[NodeInfo]:
    for place, graph in model.graphs():
        for index, node in enumerate(graph):
            yield NodeInfo(
                index=index,
                op_type=node.op_type,
                domain=node.domain,
                name=node.name or "",
                inputs=tuple(value.name or "" if value is not None else "" for value in node.inputs),
                outputs=tuple(value.name or "" for value in node.outputs),
                attributes={name: attribute_value(attribute) for name, attribute in node.attributes.items()},
                graph=place,
            )


def _opportunity(found: PatternMatch) -> Opportunity:
    if found.pattern in ("Identity", "Dropout"):
        text = f"{found.pattern} does nothing in inference and can go."
    else:
        text = f"{found.pattern} can become one operator. In ONNX Runtime: {found.fused_by}."
    return Opportunity(kind=found.pattern, nodes=found.nodes, graph=found.graph, text=text)
