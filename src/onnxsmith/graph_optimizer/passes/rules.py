"""Passes that go from node to node, and the simplest of all of them."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor, Unknown
from onnxsmith.graph_optimizer.passes.base import Pass, PassResult
from onnxsmith.model import Model


@dataclass(frozen=True)
class GraphPass(Pass):
    """A pass that edits the graph in place."""

    def run(self, model: Model) -> PassResult:
        """Edits the graph."""
        editor = Editor(model, self.name)
        self.edit(editor)
        return PassResult(model, editor.changes, tuple(editor.notes))

    @abstractmethod
    def edit(self, editor: Editor) -> None:
        """Does the work, calling `editor.count()` for each change."""


@dataclass(frozen=True)
class RulePass(GraphPass):
    """A pass that looks at one node of certain operators after another, and again at what a change left near it.

    Attributes:
        operators: The operators of the default domain that it starts from.
    """

    operators: ClassVar[frozenset[str]]

    def edit(self, editor: Editor) -> None:
        """Goes over the nodes until nothing more applies."""
        waiting = deque(node for node in editor.nodes() if node.op_type in self.operators)
        queued = set(waiting)
        left = 20 * len(queued) + 1000
        while waiting and left:
            left -= 1
            node = waiting.popleft()
            queued.discard(node)
            if node.graph is None or not editor.is_standard(node):
                continue
            editor.root = node
            try:
                applied = self.rewrite(node, editor)
            except Unknown as unknown:
                applied = editor.decline(node, str(unknown))
            if applied:
                editor.count()
            for near in editor.take_touched():
                if near.graph is not None and near.op_type in self.operators and near not in queued:
                    queued.add(near)
                    waiting.append(near)
        editor.root = None
        # A node that was looked at twice declines twice.
        editor.notes[:] = dict.fromkeys(editor.notes)

    @abstractmethod
    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Applies the rule to one node.

        Args:
            node: A node of one of `operators`, in the graph.
            editor: How to look and to change. New nodes go before `node`.

        Returns:
            Whether it applied; `editor.decline(node, reason)` where it matched and must not.

        Raises:
            Unknown: Something that it needs is not known.
        """
