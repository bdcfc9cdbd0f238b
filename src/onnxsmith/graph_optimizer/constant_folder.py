"""What can be computed before the model runs, and what a runtime really computed."""

from __future__ import annotations

from collections.abc import Mapping

from onnxsmith.graph_analysis.matching import constant
from onnxsmith.graph_analysis.patterns import node_label
from onnxsmith.graph_analysis.symbolic import Facts
from onnxsmith.graph_optimizer.folding import FoldingState, constants_of, is_constant_node, plan_folding, tensor_bytes
from onnxsmith.model import Model
from onnxsmith.records import Record


class FoldableNode(Record):
    """A node whose outputs do not depend on the inputs of the model.

    Attributes:
        node: Its label.
        op_type: Its operator.
        graph: The graph it is in, as `Model.graphs` calls it.
        outputs: The names of its outputs.
    """

    node: str
    op_type: str
    graph: str
    outputs: tuple[str, ...]


class BlockedNode(Record):
    """A node that has constant inputs only, and that must not be folded all the same.

    Attributes:
        node: Its label.
        op_type: Its operator.
        graph: The graph it is in.
        reason: Why.
    """

    node: str
    op_type: str
    graph: str
    reason: str


class FoldingReport(Record):
    """What folding would do to a model.

    Attributes:
        foldable: The nodes that fold; Constant nodes are not among them.
        count: How many they are.
        blocked: Nodes that look as if they folded.
        bytes_added: Bytes of the constants that would remain: outputs of foldable nodes that other nodes, or the
            outputs of a graph, use; an Identity adds none.
        bytes_removed: Bytes of the initializers and Constant nodes that only foldable nodes use.
        bytes_net: `bytes_added` less `bytes_removed`.
        bytes_unknown: Values whose size inference does not know; they are in neither sum.
    """

    foldable: tuple[FoldableNode, ...]
    count: int
    blocked: tuple[BlockedNode, ...]
    bytes_added: int
    bytes_removed: int
    bytes_net: int
    bytes_unknown: tuple[str, ...]


class LevelFolding(Record):
    """What became of the foldable nodes at one level.

    Attributes:
        gone: How many of them no node of the level's model stands for: none of their outputs is made by one.
        remaining: The labels of the others.
        constant_bytes: Bytes of the level's initializers and Constant nodes.
    """

    gone: int
    remaining: tuple[str, ...]
    constant_bytes: int


class FoldingComparison(Record):
    """Constant folding over several levels.

    Attributes:
        foldable: How many nodes were found to fold.
        levels: What each level did with them, by label.
    """

    foldable: int
    levels: dict[str, LevelFolding]


class ConstantFolder:
    """Finds the nodes of a model that fold, as the pass `fold-constants` does.

    Args:
        model: The model.
        max_growth_bytes: By how many bytes it may grow; by default 2 % of its size.
        fold_overridable: Whether initializers that a caller may override count as constants.
    """

    def __init__(self, model: Model, *, max_growth_bytes: int | None = None, fold_overridable: bool = False) -> None:
        self._model = model
        self._max_growth_bytes = max_growth_bytes
        self._fold_overridable = fold_overridable

    def analyse(self) -> FoldingReport:
        """Follows constants through the graph and its subgraphs; nothing is computed."""
        model = self._model
        state = FoldingState(model.ir)
        plan = plan_folding(
            model,
            Facts(model.ir),
            budget=lambda: state.left(model, self._max_growth_bytes),
            overridable=self._fold_overridable,
        )
        places = {}
        for place, graph in model.graphs():
            for index, node in enumerate(graph):
                places[node] = (node_label(node, index), place)
        foldable = tuple(
            FoldableNode(
                node=places[node][0],
                op_type=node.op_type,
                graph=places[node][1],
                outputs=tuple(value.name for value in node.outputs if value.name),
            )
            for node in plan.nodes
        )
        blocked = tuple(
            BlockedNode(node=places[node][0], op_type=node.op_type, graph=places[node][1], reason=reason)
            for node, reason in plan.blocked.items()
        )
        return FoldingReport(
            foldable=foldable,
            count=len(foldable),
            blocked=blocked,
            bytes_added=plan.bytes_added,
            bytes_removed=plan.bytes_removed,
            bytes_net=plan.bytes_added - plan.bytes_removed,
            bytes_unknown=tuple(value.name or "" for value in plan.unknown),
        )

    def compare(self, models: Mapping[str, Model]) -> FoldingComparison:
        """Looks which of the foldable nodes are gone from other versions of the model.

        Args:
            models: The versions by label.
        """
        foldable = self.analyse().foldable
        levels = {}
        for label, model in models.items():
            made = {value.name for node in model.nodes() if not is_constant_node(node) for value in node.outputs}
            remaining = tuple(node.node for node in foldable if not made.isdisjoint(node.outputs))
            levels[label] = LevelFolding(
                gone=len(foldable) - len(remaining), remaining=remaining, constant_bytes=_constant_bytes(model)
            )
        return FoldingComparison(foldable=len(foldable), levels=levels)


def _constant_bytes(model: Model) -> int:
    values = (value for _, graph in model.graphs() for value in constants_of(graph, overridable=True))
    tensors = (value.const_value or constant(value) for value in values)
    return sum(tensor_bytes(tensor) for tensor in tensors if tensor is not None)
