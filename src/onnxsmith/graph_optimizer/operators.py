"""What ONNX's own definitions say of a node's operator."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from onnxsmith.graph_analysis.matching import default_domain
from onnxsmith.graph_analysis.nesting import has_subgraph
from onnxsmith.model import Model


def onnx_schema(model: Model, node: ir.Node) -> onnx.defs.OpSchema | None:
    """ONNX's definition of a node's operator at the model's opset, or None where ONNX has none."""
    if not default_domain(node):
        return None
    try:
        return onnx.defs.get_schema(node.op_type, model.opset, "")
    except onnx.defs.SchemaError:
        return None


def is_declared_random(schema: onnx.defs.OpSchema) -> bool:
    """Whether ONNX declares the operator non-deterministic."""
    determinism = schema.node_determinism  # type: ignore[attr-defined]  # onnx's stub lacks it
    return bool(determinism == onnx.defs.OpSchema.NodeDeterminism.NonDeterministic)


def random_operators(model: Model) -> tuple[str, ...]:
    """The operators of a model that ONNX declares non-deterministic, by name; those with subgraphs are not meant."""
    found = set()
    for node in model.nodes():
        schema = onnx_schema(model, node)
        if schema is not None and is_declared_random(schema) and not has_subgraph(node):
            found.add(node.op_type)
    return tuple(sorted(found))


def runtime_operators(model: Model) -> int:
    """How many nodes are of ONNX Runtime's own operators: of its domains, or in ONNX's without being defined there."""
    return sum(
        node.domain.startswith("com.microsoft") or (default_domain(node) and onnx_schema(model, node) is None)
        for node in model.nodes()
    )
