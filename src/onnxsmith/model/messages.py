"""Walks over protobuf messages: every graph, attribute and tensor of a model, wherever it hides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message


def is_text(model: onnx.ModelProto) -> bool:
    """Whether every string in a model is UTF-8; protobuf gives the bytes of those that are not."""
    layouts: dict[type, _Layout] = {}
    types: set[bytes] = set()
    stack: list[Any] = [model]
    while stack:
        message = stack.pop()
        kind = type(message)
        if kind is onnx.TypeProto:
            # Most values of a model are of a few types, each a tree of messages.
            serialised = message.SerializeToString()
            if serialised in types:
                continue
            types.add(serialised)
        layout = layouts.get(kind)
        if layout is None:
            layout = layouts[kind] = _Layout.of(kind())
        try:
            # Joining is the quickest way to learn that all of them are str.
            "".join([getattr(message, name) for name in layout.texts])
            for name in layout.text_lists:
                "".join(getattr(message, name))
        except TypeError:
            return False
        stack += [getattr(message, name) for name in layout.messages if message.HasField(name)]
        for name in layout.message_lists:
            stack += getattr(message, name)
    return True


@dataclass(frozen=True)
class _Layout:
    """The names of a message's fields that are text or hold it."""

    texts: tuple[str, ...]
    text_lists: tuple[str, ...]
    messages: tuple[str, ...]
    message_lists: tuple[str, ...]

    @classmethod
    def of(cls, empty: Message) -> _Layout:
        """The layout of an empty message's kind."""

        def names(kind: int, *, lists: bool) -> tuple[str, ...]:
            fields = [field.name for field in empty.DESCRIPTOR.fields if field.type == kind]
            return tuple(name for name in fields if isinstance(getattr(empty, name), (str, Message)) != lists)

        text, message = FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE
        return cls(
            names(text, lists=False),
            names(text, lists=True),
            names(message, lists=False),
            names(message, lists=True),
        )


def contents(model: onnx.ModelProto) -> tuple[list[onnx.GraphProto], list[onnx.AttributeProto]]:
    """Every graph of a model, in nodes, functions and training information too, and every attribute."""
    graphs: list[onnx.GraphProto] = []
    attributes: list[onnx.AttributeProto] = []
    stack = [model.graph]
    for training in model.training_info:
        stack += [getattr(training, name) for name in ("initialization", "algorithm") if training.HasField(name)]

    def meet(found: Iterable[onnx.AttributeProto]) -> None:
        for attribute in found:
            attributes.append(attribute)
            if attribute.HasField("g"):
                stack.append(attribute.g)
            stack.extend(attribute.graphs)

    for function in model.functions:
        meet(function.attribute_proto)
        for node in function.node:
            meet(node.attribute)
    while stack:
        graph = stack.pop()
        graphs.append(graph)
        for node in graph.node:
            meet(node.attribute)
    return graphs, attributes


def all_graphs(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    """The main graph, and every graph in nodes, functions and training information."""
    return contents(model)[0]


def all_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor: initializers, attributes, and the values and indices of sparse ones."""
    graphs, attributes = contents(model)
    yield from _dense(graphs, attributes)
    yield from _sparse(graphs, attributes)


def dense_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every initializer and every tensor in an attribute."""
    return _dense(*contents(model))


def sparse_parts(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """The values and the indices of every sparse tensor."""
    return _sparse(*contents(model))


def _dense(graphs: Iterable[onnx.GraphProto], attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    for graph in graphs:
        yield from graph.initializer
    for attribute in attributes:
        # A tensor attribute without its tensor is as good as one without a dtype.
        if attribute.HasField("t") or (attribute.type == onnx.AttributeProto.TENSOR and not attribute.ref_attr_name):
            yield attribute.t
        yield from attribute.tensors


def _sparse(graphs: Iterable[onnx.GraphProto], attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    for graph in graphs:
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for attribute in attributes:
        if attribute.HasField("sparse_tensor"):
            yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
        for sparse in attribute.sparse_tensors:
            yield from (sparse.values, sparse.indices)


def value_infos(model: onnx.ModelProto, graphs: Iterable[onnx.GraphProto]) -> Iterator[onnx.ValueInfoProto]:
    """What graphs say of their inputs, outputs and intermediate values, and the functions of their model."""
    for graph in graphs:
        yield from graph.input
        yield from graph.output
        yield from graph.value_info
    for function in model.functions:
        yield from function.value_info
