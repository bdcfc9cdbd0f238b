"""Another version of the standard operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import onnx
import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor, Unknown
from onnxsmith.graph_optimizer.passes.base import Pass, PassResult
from onnxsmith.graph_optimizer.passes.opset_changes import CHANGES, Edit, without_attributes
from onnxsmith.graph_optimizer.passes.opset_schemas import misfit, mistyped, needless_attributes, schema_of, version_of
from onnxsmith.model import Model

_OLDEST = 7
"""Before it, operators did not broadcast as they do now; there is no way back."""


@dataclass(frozen=True)
class ConvertOpset(Pass):
    """Moves the model to another opset of the standard operators: all of it, or nothing.

    Attributes:
        opset: The version of the default domain.
    """

    name: ClassVar[str] = "convert-opset"
    in_place: ClassVar[bool] = False
    exact: ClassVar[bool] = False  # runtimes have other code for other versions of an operator

    opset: int

    def __post_init__(self) -> None:
        """Refuses an opset that there is not.

        Raises:
            ValueError: ONNX has none of that number, or it is too old.
        """
        newest = onnx.defs.onnx_opset_version()
        if not _OLDEST <= self.opset <= newest:
            raise ValueError(f"opset {self.opset} is not one of {_OLDEST} to {newest}")

    def run(self, model: Model) -> PassResult:
        """Makes a model of the other opset; where a node cannot be moved, the notes say why."""
        if model.opset in (0, self.opset):
            return PassResult(model, 0)
        converted = Model(model.ir.clone())
        editor = Editor(converted, self.name)
        edits = [(node, edit) for node in editor.nodes() if (edit := self._plan(editor, node)) is not None]
        for function in converted.ir.functions.values():
            self._look_at(editor, function)
        if editor.notes:
            return PassResult(model, 0, tuple(dict.fromkeys(editor.notes)))
        for imports in _imports(editor):
            imports.pop("ai.onnx", None)
            imports[""] = self.opset
        editor = Editor(converted, self.name)
        for node, edit in edits:
            editor.root = node
            edit(editor, node)
        editor.root = None
        editor.facts.forget()
        return PassResult(converted, 1 + len(edits))

    def _plan(self, editor: Editor, node: ir.Node) -> Edit | None:
        """What to do to a node; None where nothing, and where it cannot be moved, which is noted."""
        if node.domain not in ("", "ai.onnx") or node.op_identifier() in editor.model.functions:
            return None
        try:
            return self._edit_of(editor, node)
        except Unknown as unknown:
            editor.decline(node, str(unknown))
            return None

    def _edit_of(self, editor: Editor, node: ir.Node) -> Edit | None:
        version = version_of(node.op_type, editor.opset)
        if version in (None, version_of(node.op_type, self.opset)):
            return None
        if schema_of(node.op_type, self.opset) is None:
            raise Unknown(f"opset {self.opset} has no {node.op_type}")
        change = CHANGES.get(node.op_type)
        edit: Edit | None = None
        if change is not None and change.crossed(editor.opset, self.opset):
            edit = change.plan(editor, node, self.opset)
        else:
            needless = needless_attributes(editor, node, self.opset)
            if reason := misfit(editor, node, self.opset, without=needless):
                raise Unknown(reason)
            if needless:
                edit = without_attributes(needless)
        if self.opset < editor.opset and (reason := mistyped(editor, node, self.opset)):
            raise Unknown(reason)
        return edit

    def _look_at(self, editor: Editor, function: ir.Function) -> None:
        """Notes what keeps a function of the model from the other opset; only what stays as it is can be in one."""
        imported = function.opset_imports.get("", function.opset_imports.get("ai.onnx"))
        if imported is None:
            return
        for node in function.all_nodes():
            if node.domain not in ("", "ai.onnx") or node.op_identifier() in editor.model.functions:
                continue
            if version_of(node.op_type, imported) != version_of(node.op_type, self.opset):
                editor.decline(
                    node,
                    f"it is in the function '{function.domain}.{function.name}' and is another at opset {self.opset}; "
                    "inline the function first",
                )


def _imports(editor: Editor) -> Iterator[dict[str, int]]:
    """The imports of every graph and function that name the default domain."""
    graphs = [*editor.graphs(), *(function.graph for function in editor.model.functions.values())]
    for graph in graphs:
        if "" in graph.opset_imports or "ai.onnx" in graph.opset_imports:
            yield graph.opset_imports
