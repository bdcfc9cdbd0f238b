"""Walks over protobuf messages: every graph, attribute and tensor of a model, wherever it hides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import google.protobuf.message
import onnx
from google.protobuf.descriptor import FieldDescriptor


def is_text(model: onnx.ModelProto) -> bool:
    """Whether every string in a model is UTF-8; protobuf gives the bytes of those that are not."""
    stack: list[google.protobuf.message.Message] = [model]
    while stack:
        message = stack.pop()
        if isinstance(message, onnx.TensorProto):
            # Not by way of its fields, which would copy the data.
            texts: list[object] = [message.name, message.doc_string]
            stack += [*message.external_data, *message.metadata_props]
        else:
            texts = []
            for field, value in message.ListFields():
                values: Any = [value] if isinstance(value, (str, bytes, google.protobuf.message.Message)) else value
                if field.type == FieldDescriptor.TYPE_MESSAGE:
                    stack += values
                elif field.type == FieldDescriptor.TYPE_STRING:
                    texts += values
        if any(isinstance(text, bytes) for text in texts):
            return False
    return True


def all_graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The main graph, and every graph in nodes, functions and training information."""
    stack = [model.graph]
    for training in model.training_info:
        stack += [getattr(training, name) for name in ("initialization", "algorithm") if training.HasField(name)]
    stack += _inner_graphs(_function_attributes(model))
    while stack:
        graph = stack.pop()
        yield graph
        stack += _inner_graphs(attribute for node in graph.node for attribute in node.attribute)


def all_attributes(model: onnx.ModelProto) -> Iterator[onnx.AttributeProto]:
    """The attributes of every node, and the defaults of every function."""
    yield from _function_attributes(model)
    for graph in all_graphs(model):
        for node in graph.node:
            yield from node.attribute


def all_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor: initializers, attributes, and the values and indices of sparse ones."""
    yield from dense_tensors(model)
    yield from sparse_parts(model)


def dense_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every initializer and every tensor in an attribute."""
    for graph in all_graphs(model):
        yield from graph.initializer
    for attribute in all_attributes(model):
        # A tensor attribute without its tensor is as good as one without a dtype.
        if attribute.HasField("t") or (attribute.type == onnx.AttributeProto.TENSOR and not attribute.ref_attr_name):
            yield attribute.t
        yield from attribute.tensors


def sparse_parts(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """The values and the indices of every sparse tensor."""
    for graph in all_graphs(model):
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for attribute in all_attributes(model):
        if attribute.HasField("sparse_tensor"):
            yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
        for sparse in attribute.sparse_tensors:
            yield from (sparse.values, sparse.indices)


def value_infos(model: onnx.ModelProto) -> Iterator[onnx.ValueInfoProto]:
    """What every graph says of its inputs, outputs and intermediate values, and every function."""
    for graph in all_graphs(model):
        yield from graph.input
        yield from graph.output
        yield from graph.value_info
    for function in model.functions:
        yield from function.value_info


def _function_attributes(model: onnx.ModelProto) -> Iterator[onnx.AttributeProto]:
    for function in model.functions:
        yield from function.attribute_proto
        for node in function.node:
            yield from node.attribute


def _inner_graphs(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.GraphProto]:
    for attribute in attributes:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
