"""What can be computed before the model runs, and what a runtime really computed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxsmith.config import LimitsConfig
from onnxsmith.graph_analysis.matching import constant, default_domain, scalar
from onnxsmith.graph_analysis.patterns import node_label
from onnxsmith.graph_optimizer.operators import has_subgraph, is_declared_random, onnx_schema
from onnxsmith.model import Dim, Model, NativeAnalysis, analyse_native
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
    """Finds the nodes of a model that fold.

    Args:
        model: The model.
        limits: Limits on the child process that infers the shapes.
        analysis: The model's shapes, where the caller has them.
    """

    def __init__(
        self, model: Model, *, limits: LimitsConfig | None = None, analysis: NativeAnalysis | None = None
    ) -> None:
        self._model = model
        self._limits = limits
        self._analysis = analysis

    def analyse(self) -> FoldingReport:
        """Follows constants through the graph and its subgraphs.

        Raises:
            InvalidModelError: The checker refuses the model.
            RuntimeFailure: ONNX's native code failed on it.
        """
        if self._analysis is None:
            self._analysis = analyse_native(self._model, self._limits)
        walk = _Walk(self._model, self._analysis)
        added, unknown = walk.bytes_added()
        removed = walk.bytes_removed()
        foldable = tuple(
            FoldableNode(
                node=walk.label(node),
                op_type=node.op_type,
                graph=walk.places[node],
                outputs=tuple(value.name for value in node.outputs if value.name),
            )
            for node in walk.foldable
        )
        blocked = tuple(
            BlockedNode(node=walk.label(node), op_type=node.op_type, graph=walk.places[node], reason=reason)
            for node, reason in walk.blocked.items()
        )
        return FoldingReport(
            foldable=foldable,
            count=len(foldable),
            blocked=blocked,
            bytes_added=added,
            bytes_removed=removed,
            bytes_net=added - removed,
            bytes_unknown=unknown,
        )

    def compare(self, models: Mapping[str, Model]) -> FoldingComparison:
        """Looks which of the foldable nodes are gone from other versions of the model.

        Args:
            models: The versions by label.

        Raises:
            InvalidModelError: The checker refuses the model.
        """
        foldable = self.analyse().foldable
        levels = {}
        for label, model in models.items():
            made = {value.name for node in model.nodes() if not _is_constant_node(node) for value in node.outputs}
            remaining = tuple(node.node for node in foldable if not made.isdisjoint(node.outputs))
            levels[label] = LevelFolding(
                gone=len(foldable) - len(remaining), remaining=remaining, constant_bytes=_constant_bytes(model)
            )
        return FoldingComparison(foldable=len(foldable), levels=levels)


def _is_constant_node(node: ir.Node) -> bool:
    return node.op_type == "Constant" and default_domain(node)


def _constants(graph: ir.Graph) -> Iterator[ir.Value]:
    """The initializers that no caller can override, and the outputs of Constant nodes."""
    yield from (value for value in graph.initializers.values() if not value.is_graph_input())
    yield from (value for node in graph if _is_constant_node(node) for value in node.outputs)


def _constant_bytes(model: Model) -> int:
    values = (value for _, graph in model.graphs() for value in (*graph.initializers.values(), *_constants(graph)))
    tensors = (value.const_value or constant(value) for value in dict.fromkeys(values))
    return sum(_tensor_bytes(tensor) for tensor in tensors if tensor is not None)


def _tensor_bytes(tensor: ir.TensorProtocol) -> int:
    if isinstance(tensor, ir.StringTensor):
        return sum(map(len, tensor.string_data()))
    return tensor.nbytes


@dataclass
class _Walk:
    """One pass over a model, outer graphs first, nodes in their order."""

    model: Model
    analysis: NativeAnalysis
    constants: set[ir.Value] = field(default_factory=set)
    foldable: dict[ir.Node, None] = field(default_factory=dict)
    blocked: dict[ir.Node, str] = field(default_factory=dict)
    places: dict[ir.Node, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers: dict[ir.Graph, int] = {}
        self._indices: dict[ir.Node, int] = {}
        for number, (place, graph) in enumerate(self.model.graphs()):
            self._numbers[graph] = number
            self.constants.update(_constants(graph))
            for index, node in enumerate(graph):
                self.places[node] = place
                self._indices[node] = index
                self._visit(node)

    def label(self, node: ir.Node) -> str:
        return node_label(node, self._indices[node])

    def _visit(self, node: ir.Node) -> None:
        if _is_constant_node(node):
            return
        inputs = [value for value in node.inputs if value is not None]
        overridable = [value for value in inputs if value.is_graph_input() and value.is_initializer()]
        if all(value in self.constants for value in inputs if value not in overridable):
            reason = self._why_not(node)
            if reason is None and overridable:
                reason = (
                    f"initializer '{overridable[0].name}' is an input of the model too, so a caller may override it"
                )
            if reason is not None:
                self.blocked[node] = reason
                return
        elif not self._measures_static_shape(node):
            return
        self.foldable[node] = None
        self.constants.update(node.outputs)

    def _why_not(self, node: ir.Node) -> str | None:
        """Why a node with constant inputs must not fold, or None."""
        if node.op_identifier() in self.model.ir.functions:
            return "it calls a function of the model"
        if not default_domain(node):
            return f"its operator is of the domain '{node.domain}', not ONNX's own"
        if has_subgraph(node):
            return "it has a subgraph, which may use values beyond the node's inputs"
        schema = onnx_schema(self.model, node)
        if schema is None:
            return f"opset {self.model.opset} has no such operator"
        if node.op_type == "Dropout":
            training = node.inputs[2] if len(node.inputs) > 2 else None
            return None if training is None or scalar(training) == 0 else "it may be in training mode, which is random"
        if is_declared_random(schema):
            return "ONNX declares it non-deterministic"
        if any(all(not text.startswith("tensor(") for text in output.types) for output in schema.outputs):
            return "its output is a sequence or an optional, not a tensor"
        if node.op_type == "DequantizeLinear":
            return "folding it would undo the quantisation of the weight"
        return None

    def _measures_static_shape(self, node: ir.Node) -> bool:
        """Whether the node is the Shape or Size of a value whose dimensions that it reads are known."""
        if node.op_type not in ("Shape", "Size") or not default_domain(node) or node.inputs[0] is None:
            return False
        dims = self._dims(node.inputs[0])
        if dims is not None and node.op_type == "Shape":
            dims = dims[node.attributes.get_int("start", 0) : node.attributes.get_int("end")]
        return dims is not None and all(isinstance(dim, int) for dim in dims)

    def _dims(self, value: ir.Value) -> tuple[Dim, ...] | None:
        return _look_up(self.analysis.shapes, self._numbers, value)

    def kept(self) -> dict[ir.Value, None]:
        """The constants that must stand in the folded model, for other nodes or for the outputs of a graph.

        An Identity adds none: its users take its source.
        """
        values = (value for node in self.foldable for value in node.outputs)
        return dict.fromkeys(
            self._behind_identity(value)
            for value in values
            if value.is_graph_output() or any(use.node not in self.foldable for use in value.uses())
        )

    def _behind_identity(self, value: ir.Value) -> ir.Value:
        node = value.producer()
        while node is not None and node in self.foldable and node.op_type == "Identity" and node.inputs[0] is not None:
            value = node.inputs[0]
            node = value.producer()
        return value

    def bytes_added(self) -> tuple[int, tuple[str, ...]]:
        """The bytes of what foldable nodes leave behind, and the values whose size is not known."""
        total, unknown = 0, []
        for value in self.kept():
            if value.producer() in self.foldable:
                size = self._bytes(value)
                if size is None:
                    unknown.append(value.name or "")
                else:
                    total += size
        return total, tuple(unknown)

    def _bytes(self, value: ir.Value) -> int | None:
        dims, dtype = self._dims(value), _look_up(self.analysis.dtypes, self._numbers, value)
        if dims is None or dtype in (None, "string", "undefined") or not all(isinstance(dim, int) for dim in dims):
            return None
        bits = ir.DataType.from_numpy(np.dtype(getattr(ml_dtypes, dtype, dtype))).bitwidth
        return math.ceil(math.prod(dim for dim in dims if isinstance(dim, int)) * bits / 8)

    def bytes_removed(self) -> int:
        """The bytes of the constants that foldable nodes alone use."""
        kept, total = self.kept(), 0
        for value in (value for _, graph in self.model.graphs() for value in _constants(graph)):
            uses = value.uses()
            if (
                uses
                and value not in kept
                and not value.is_graph_output()
                and all(use.node in self.foldable for use in uses)
            ):
                tensor = constant(value)
                total += _tensor_bytes(tensor) if tensor is not None else 0
        return total


_T = TypeVar("_T")


def _look_up(tables: Sequence[Mapping[str, _T]], numbers: Mapping[ir.Graph, int], value: ir.Value) -> _T | None:
    """What the table of the value's own graph says of it."""
    number = numbers.get(value.graph) if value.graph is not None else None
    return tables[number].get(value.name or "") if number is not None else None
