"""What must be equal of two nodes for one to do for both."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.operators import is_declared_random

_COMMUTATIVE = frozenset({"Add", "Mul", "And", "Or", "Xor", "Equal", "BitwiseAnd", "BitwiseOr", "BitwiseXor"})
"""Operators of two inputs whose order makes no difference to any bit."""

_WITH_BODIES = frozenset({"If", "Loop", "Scan"})
"""What ONNX declares non-deterministic only because of what may be in their bodies."""

_Local = Mapping[ir.Value, int]


class _NoKey(Exception):  # noqa: N818 - an answer, not an error
    """A node that nothing else does for."""


@dataclass(frozen=True)
class _Operator:
    commutative: bool
    defaults: Mapping[str, Hashable]


class NodeKeys:
    """Keys of nodes: equal for two that give the same outputs.

    Args:
        editor: The editor.
        tensors: The class of each tensor by its `id`: those of one class are equal.
    """

    def __init__(self, editor: Editor, tensors: Mapping[int, int]) -> None:
        self._functions = editor.model.functions
        self._imports = editor.model.opset_imports
        self._tensors = tensors
        self._operators: dict[tuple[str, str], _Operator | None] = {}

    def of(self, node: ir.Node) -> Hashable | None:
        """A node's key; None for one that may give something else each time, or of which ONNX knows nothing."""
        try:
            return self._node(node, {})
        except _NoKey:
            return None

    def _node(self, node: ir.Node, local: _Local) -> Hashable:
        operator = self._operator(node)
        inputs: list[Hashable] = [None if value is None else local.get(value, value) for value in node.inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        if operator.commutative:
            inputs.sort(key=id)
        attributes = []
        for name, attribute in node.attributes.items():
            key = self._attribute(attribute, local)
            if name not in operator.defaults or operator.defaults[name] != key:
                attributes.append((name, key))
        attributes.sort(key=lambda pair: pair[0])
        outputs = tuple(bool(value.name) for value in node.outputs)
        return node.domain, node.op_type, tuple(inputs), tuple(attributes), outputs

    def _operator(self, node: ir.Node) -> _Operator:
        if node.op_identifier() in self._functions:
            raise _NoKey
        name = node.domain, node.op_type
        if name not in self._operators:
            self._operators[name] = self._look_up(*name)
        found = self._operators[name]
        if found is None:
            raise _NoKey
        return found

    def _look_up(self, domain: str, op_type: str) -> _Operator | None:
        try:
            schema = onnx.defs.get_schema(op_type, self._imports.get(domain, 1), "" if domain == "ai.onnx" else domain)
        except onnx.defs.SchemaError:
            return None
        if is_declared_random(schema) and op_type not in _WITH_BODIES:
            return None
        defaults = {
            name: self._attribute(ir.from_proto(attribute.default_value), {})
            for name, attribute in schema.attributes.items()
            if attribute.default_value.type != onnx.AttributeProto.UNDEFINED
        }
        return _Operator(op_type in _COMMUTATIVE, defaults)

    def _attribute(self, attribute: ir.Attr, local: _Local) -> Hashable:
        if attribute.is_ref():
            raise _NoKey
        value = attribute.value
        match attribute.type:
            case ir.AttributeType.INT | ir.AttributeType.STRING:
                return attribute.type, value
            case ir.AttributeType.INTS | ir.AttributeType.STRINGS:
                return attribute.type, tuple(value)
            case ir.AttributeType.FLOAT:
                return attribute.type, struct.pack("d", value)
            case ir.AttributeType.FLOATS:
                return attribute.type, struct.pack(f"{len(value)}d", *value)
            case ir.AttributeType.TENSOR:
                return attribute.type, self._tensor(value)
            case ir.AttributeType.TENSORS:
                return attribute.type, tuple(map(self._tensor, value))
            case ir.AttributeType.GRAPH:
                return attribute.type, self._graph(value, local)
            case ir.AttributeType.GRAPHS:
                return attribute.type, tuple(self._graph(graph, local) for graph in value)
        raise _NoKey

    def _tensor(self, tensor: ir.TensorProtocol | None) -> Hashable:
        number = self._tensors.get(id(tensor))
        if number is None:
            raise _NoKey
        return number

    def _graph(self, graph: ir.Graph, outer: _Local) -> Hashable:
        """A body, its own values by number; recursion is over nesting only."""
        local = dict(outer)
        parts: list[Hashable] = []
        for value in graph.inputs:
            local[value] = len(local)
            parts.append((value.dtype, None if value.shape is None else value.shape.rank()))
        for value in graph.initializers.values():
            local[value] = len(local)
            parts.append(self._tensor(value.const_value))
        for node in graph:
            parts.append(self._node(node, local))
            for value in node.outputs:
                local[value] = len(local)
        return tuple(parts), tuple(local.get(value, value) for value in graph.outputs)
