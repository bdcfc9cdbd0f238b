"""Nodes whose outputs are the same in every run are computed once, here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import INITIALIZERS_WITHOUT_INPUTS, Editor
from onnxsmith.graph_optimizer.folding import (
    SMALL,
    FoldingPlan,
    FoldingState,
    behind_identity,
    constants_of,
    is_constant_node,
    plan_folding,
    tensor_bytes,
)
from onnxsmith.graph_optimizer.passes.base import Pass, PassResult
from onnxsmith.model import Model
from onnxsmith.model.carried import SparseTensor


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Computes what depends on constants only, within a budget on how much the model grows.

    Attributes:
        max_growth_bytes: By how many bytes the model may grow, net of what goes; by default 2 % of its size.
        fold_overridable: Whether initializers that are inputs of the model too, which a caller may override, count as
            constants.
    """

    name: ClassVar[str] = "fold-constants"
    max_growth_bytes: int | None = None
    fold_overridable: bool = False

    def run(self, model: Model) -> PassResult:
        """Folds, and makes initializers of Constant nodes."""
        editor = Editor(model, self.name)
        state = FoldingState.of(model)
        self._fold(model, editor, state)
        if model.ir.ir_version >= INITIALIZERS_WITHOUT_INPUTS:
            _lift_constants(editor)
        return PassResult(model, editor.changes, tuple(editor.notes))

    def _fold(self, model: Model, editor: Editor, state: FoldingState) -> None:
        while True:
            plan = plan_folding(
                model,
                editor.facts,
                budget=lambda: state.left(model, self.max_growth_bytes),
                overridable=self.fold_overridable,
                refused=state.refused,
                sizes=state.sizes,
            )
            values = self._values(editor, plan, state)
            if values is not None:
                break
        for node, reason in plan.blocked.items():
            editor.decline(node, reason)
        if plan.nodes:
            state.taken += plan.taken
            _apply(editor, plan, values)

    def _values(
        self, editor: Editor, plan: FoldingPlan, state: FoldingState
    ) -> dict[ir.Value, ir.TensorProtocol] | None:
        """The contents of what is kept; None where the plan must be made again, for something did not work out."""
        wanted = {plan.same[value] for value in plan.kept if value not in plan.known}
        if not wanted:
            return plan.known
        from onnxsmith.graph_optimizer.evaluation import evaluate

        def source(value: ir.Value) -> ir.TensorProtocol | None:
            if value in plan.known:
                return plan.known[value]
            if self.fold_overridable and value.is_initializer():
                return value.const_value
            return editor.facts.tensor(value) or _like(editor.facts.dtype(value))

        needed = _needed(plan, wanted)
        evaluation = evaluate(editor.model, needed, wanted, source)
        if evaluation.refused:
            state.refused.update(evaluation.refused)
            return None
        surprise = False
        for value in plan.unknown:
            size = state.sizes[value] = tensor_bytes(evaluation.values[plan.same[value]])
            surprise = surprise or size > SMALL
        return None if surprise else {**plan.known, **evaluation.values}


def _like(dtype: ir.DataType | None) -> ir.TensorProtocol | None:
    """What stands for a value that is computed in the run, where a CastLike needs its element type."""
    return None if dtype in (None, ir.DataType.STRING) else ir.Tensor(np.empty(0, dtype.numpy()), dtype=dtype)


def _needed(plan: FoldingPlan, wanted: set[ir.Value]) -> list[ir.Node]:
    """The nodes that must be computed for some values, in order."""
    needed: set[ir.Node] = set()
    makers = {value.producer() for value in wanted}
    for node in reversed(plan.nodes):
        if node in makers and node.outputs[0] not in plan.known:
            needed.add(node)
            makers.update(value.producer() for value in node.inputs if value is not None)
    return [node for node in plan.nodes if node in needed]


def _apply(editor: Editor, plan: FoldingPlan, values: dict[ir.Value, ir.TensorProtocol]) -> None:
    """Puts constants in the places of the values that are kept; what made them goes."""
    folded = dict.fromkeys(plan.nodes)
    sources = dict.fromkeys(value for node in plan.nodes for value in node.inputs if value is not None)
    for value in [node.outputs[0] for node in plan.nodes if node.op_type == "Identity"]:
        source = behind_identity(value, folded)
        if source is not value and value.uses():
            editor.replace(value, source)
    made = _initializers(editor, plan, values)
    for value in plan.kept:
        node = value.producer()
        if node is None or node.graph is None:
            continue
        editor.root = node
        new = made.get(plan.same[value])
        if value.is_graph_output() or new is None:
            new = editor.emit("Constant", [], {"value": values[value]}, hint=value.name)
        editor.replace(value, new)
    editor.root = None
    for node in reversed(plan.nodes):
        if node.graph is not None:
            editor.remove_unused(node)
        if node.graph is None:
            editor.count()
    for value in sources:
        if value.is_initializer() and not (value.uses() or value.is_graph_output() or value.is_graph_input()):
            assert value.graph is not None and value.name is not None
            del value.graph.initializers[value.name]


def _initializers(
    editor: Editor, plan: FoldingPlan, values: dict[ir.Value, ir.TensorProtocol]
) -> dict[ir.Value, ir.Value]:
    """A constant for each value that is kept, in its own graph, or in the outermost where several graphs need it."""
    places: dict[ir.Value, list[ir.Node]] = {}
    for value in plan.kept:
        node = value.producer()
        if node is not None and node.graph is not None and not value.is_graph_output():
            places.setdefault(plan.same[value], []).append(node)
    made = {}
    for value, nodes in places.items():
        shared = any(node.graph is not nodes[0].graph for node in nodes)
        editor.root = next(iter(editor.model.graph)) if shared else nodes[0]
        made[value] = editor.constant(values[value], value.name or "folded")
    return made


def _lift_constants(editor: Editor) -> None:
    """Makes initializers of Constant nodes, except where a graph's output is one, or it is sparse."""
    for graph in list(editor.graphs()):
        for value in list(constants_of(graph)):
            node = value.producer()
            tensor = editor.tensor(value)
            if node is None or tensor is None or isinstance(tensor, SparseTensor) or value.is_graph_output():
                continue
            assert is_constant_node(node) and value.name
            graph.remove(node)
            tensor.name = value.name
            made = ir.Value(
                name=value.name,
                const_value=tensor,
                shape=ir.Shape(tensor.shape.numpy()),
                type=ir.TensorType(tensor.dtype),
                doc_string=value.doc_string,
            )
            value.replace_all_uses_with(made)
            graph.register_initializer(made)
            editor.count()
