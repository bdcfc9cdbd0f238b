"""The IR into protobuf, with other tensors in place of its own: the model is neither copied nor changed for it.

onnx-ir's writer only reads what it is given, so it is given views that answer as the model does, but for tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import onnx
import onnx_ir as ir

from onnxsmith.errors import InvalidModelError

Replace = Callable[[ir.TensorProtocol, bool], ir.TensorProtocol]
"""Called with a tensor and whether it is an initializer, as against in an attribute; returns what to write there."""

WITH_TENSORS = frozenset(
    {ir.AttributeType.TENSOR, ir.AttributeType.TENSORS, ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS}
)
"""The kinds of attributes that tensors can be in."""


def to_message(model: ir.Model, replace: Replace) -> onnx.ModelProto:
    """Writes a model with other tensors in it.

    Args:
        model: The model.
        replace: What to write for each tensor.

    Raises:
        InvalidModelError: The nodes of a graph are not in order.
        SerdeError: onnx-ir cannot write it.
    """
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        _require_order(graph)
    view: Any = _ModelView(model, replace)
    return ir.serde.serialize_model(view)


def _require_order(graph: ir.Graph) -> None:
    known: set[ir.Value] = set()

    def visit(graph: ir.Graph) -> None:
        known.update(graph.inputs)
        known.update(graph.initializers.values())
        for node in graph:
            require(node.inputs)
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
                    visit(attribute.as_graph())
                elif attribute.type == ir.AttributeType.GRAPHS and not attribute.is_ref():
                    for inner in attribute.as_graphs():
                        visit(inner)
            known.update(node.outputs)
        require(graph.outputs)

    def require(values: Any) -> None:
        if any(value is not None and value not in known for value in values):
            raise InvalidModelError(
                f"the graph '{graph.name}' uses values that nothing makes, or its nodes are not in order."
            )

    visit(graph)


class _View:
    def __init__(self, of: Any, replace: Replace) -> None:
        self._of = of
        self._replace = replace

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


class _ModelView(_View):
    @cached_property
    def graph(self) -> _GraphView:
        return _GraphView(self._of.graph, self._replace)

    @cached_property
    def functions(self) -> dict[Any, _FunctionView]:
        return {key: _FunctionView(function, self._replace) for key, function in self._of.functions.items()}


class _NodesView(_View):
    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Any]:
        for node in self._of:
            holds = any(attribute.type in WITH_TENSORS for attribute in node.attributes.values())
            yield _AttributesView(node, self._replace) if holds else node


class _GraphView(_NodesView):
    @cached_property
    def initializers(self) -> dict[str, Any]:
        return {name: _InitializerView(value, self._replace) for name, value in self._of.initializers.items()}


class _AttributesView(_View):
    @cached_property
    def attributes(self) -> dict[str, Any]:
        return {
            name: attribute if attribute.is_ref() else _AttributeView(attribute, self._replace)
            for name, attribute in self._of.attributes.items()
        }


class _FunctionView(_NodesView, _AttributesView):
    pass


class _InitializerView(_View):
    @cached_property
    def const_value(self) -> Any:
        tensor = self._of.const_value
        return None if tensor is None else self._replace(tensor, True)


class _AttributeView(_View):
    @cached_property
    def value(self) -> Any:
        value = self._of.value
        match self._of.type if value is not None else None:
            case ir.AttributeType.TENSOR:
                return self._replace(value, False)
            case ir.AttributeType.TENSORS:
                return [self._replace(tensor, False) for tensor in value]
            case ir.AttributeType.GRAPH:
                return _GraphView(value, self._replace)
            case ir.AttributeType.GRAPHS:
                return [_GraphView(graph, self._replace) for graph in value]
            case _:
                return value
