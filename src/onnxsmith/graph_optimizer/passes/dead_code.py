"""What nothing uses goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.rules import GraphPass


@dataclass(frozen=True)
class EliminateDeadCode(GraphPass):
    """Removes nodes, initializers and functions that no output needs; inputs stay."""

    name: ClassVar[str] = "eliminate-dead-code"

    def edit(self, editor: Editor) -> None:
        """Goes from the last node of each graph to the first, inner graphs after the outer ones."""
        for graph in list(editor.graphs()):
            for node in list(reversed(graph)):
                if node.graph is not None:
                    for _ in range(editor.remove_unused(node)):
                        editor.count()
        for graph in editor.graphs():
            for name, value in list(graph.initializers.items()):
                if not value.uses() and not value.is_graph_output() and not value.is_graph_input():
                    del graph.initializers[name]
                    editor.count()
        used = {node.op_identifier() for node in editor.nodes()}
        functions = editor.model.functions
        waiting = [functions[key] for key in used if key in functions]
        while waiting:
            for node in waiting.pop().all_nodes():
                key = node.op_identifier()
                if key in functions and key not in used:
                    used.add(key)
                    waiting.append(functions[key])
        for key in [key for key in functions if key not in used]:
            del functions[key]
            editor.count()
