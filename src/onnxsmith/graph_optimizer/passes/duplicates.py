"""What is there twice."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.graph_analysis.nesting import subgraphs
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.equal_tensors import equal_tensors
from onnxsmith.graph_optimizer.passes.node_keys import NodeKeys
from onnxsmith.graph_optimizer.passes.rules import GraphPass

_MOST_INPUTS = 4096
"""Of a node one of whose inputs is changed: to change one takes as long as there are inputs."""


@dataclass(frozen=True)
class EliminateDuplicates(GraphPass):
    """Keeps one of several equal nodes, subgraphs and initializers; never merges what is random."""

    name: ClassVar[str] = "eliminate-duplicates"

    def edit(self, editor: Editor) -> None:
        """Goes over each graph in order; what an outer graph has already made serves an inner one too."""
        _Merge(editor).visit(editor.model.graph)
        editor.root = None


class _Merge:
    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._tensors = equal_tensors(_tensors(editor))
        self._keys = NodeKeys(editor, self._tensors)
        self._nodes: dict[Hashable, ir.Node] = {}
        self._initializers: dict[int, ir.Value] = {}

    def visit(self, graph: ir.Graph) -> None:
        """Merges what is in a graph; recursion is over nesting only."""
        own_initializers = self._merge_initializers(graph)
        own_nodes = []
        for node in list(graph):
            key = self._keys.of(node)
            if key is not None:
                kept = self._nodes.get(key)
                if kept is None:
                    self._nodes[key] = node
                    own_nodes.append(key)
                elif self._merge(node, kept):
                    continue
            for inner in subgraphs(node):
                self.visit(inner)
        for key in own_nodes:
            del self._nodes[key]
        for number in own_initializers:
            del self._initializers[number]

    def _merge_initializers(self, graph: ir.Graph) -> list[int]:
        """Merges equal initializers. Returns the classes that are new."""
        new = []
        for name, value in list(graph.initializers.items()):
            number = self._tensors.get(id(value.const_value))
            if number is None or value.is_graph_input():
                continue
            kept = self._initializers.get(number)
            if kept is None:
                self._initializers[number] = value
                new.append(number)
            elif not value.is_graph_output():
                self._editor.replace(value, kept)
                del graph.initializers[name]
                self._editor.count()
        return new

    def _merge(self, node: ir.Node, kept: ir.Node) -> bool:
        for old, new in zip(node.outputs, kept.outputs, strict=True):
            if old.is_graph_output() and (new.is_graph_output() or kept.graph is not node.graph):
                return self._editor.decline(node, "another node makes the same value, and this one is an output")
        if any(len(use.node.inputs) > _MOST_INPUTS for old in node.outputs for use in old.uses()):
            return self._editor.decline(
                node, "what uses it has thousands of inputs, each of which takes long to change"
            )
        self._editor.root = node
        for old, new in zip(list(node.outputs), kept.outputs, strict=True):
            self._editor.replace(old, new)
        self._editor.count()
        return True


def _tensors(editor: Editor) -> Iterator[ir.TensorProtocol]:
    """The tensors of all initializers that no caller can override, and of all attributes."""
    for graph in editor.graphs():
        for value in graph.initializers.values():
            if value.const_value is not None and not value.is_graph_input():
                yield value.const_value
        for node in graph:
            for attribute in node.attributes.values():
                if attribute.is_ref():
                    continue
                if attribute.type == ir.AttributeType.TENSOR:
                    yield attribute.value
                elif attribute.type == ir.AttributeType.TENSORS:
                    yield from attribute.value
