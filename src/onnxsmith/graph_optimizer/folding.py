"""Which nodes fold: what the pass does and what the report says are decided here.

A node folds where its outputs are the same in every run. What folds is removed, and the values that others still need
stand in the model as constants: the bytes of these, less those of the constants that nothing else uses, are the growth.
Groups of nodes that depend on each other are accepted or refused together; one that grows too much loses the nodes that
expand most, and what follows from them, until it is small enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_analysis.matching import default_domain
from onnxsmith.graph_analysis.nesting import has_subgraph
from onnxsmith.graph_analysis.symbolic import Facts
from onnxsmith.graph_analysis.symbolic.call import CONTENTS
from onnxsmith.graph_optimizer.operators import is_declared_random, onnx_schema
from onnxsmith.model import Model
from onnxsmith.model.carried import SparseTensor

SMALL = 1024
"""What a single result may always add, as long as the budget lasts."""

_NODE_BYTES = 32
"""What a node takes in a file, less what a constant takes beside its contents."""

_SHARE = 50
"""By default a model may grow by one in so many of its bytes."""

_LEAST = 1024
"""What the smallest of models may grow by."""

_STATE = "onnxsmith.folding"

_LARGEST_COMPARED = 256
"""The bytes of the largest constants that are the same where their contents are."""

_LARGEST = 1 << 31
"""The bytes of the largest tensor that is computed, even if only on the way."""

_WHOLE_TYPES = frozenset(
    {
        ir.DataType.BOOL,
        ir.DataType.INT8,
        ir.DataType.INT16,
        ir.DataType.INT32,
        ir.DataType.INT64,
        ir.DataType.UINT8,
        ir.DataType.UINT16,
        ir.DataType.UINT32,
        ir.DataType.UINT64,
    }
)


@dataclass
class FoldingPlan:
    """What folds and what does not.

    Attributes:
        nodes: The nodes that fold, each after those that it depends on.
        known: The contents of values that are known without computing anything: sizes of shapes.
        blocked: The nodes that look as if they folded, with the reason.
        kept: The values that must stand in the model as constants.
        same: By a value of `kept`, one that has the same contents because it is made in the same way.
        bytes_added: The bytes of `kept`, without what is the same.
        bytes_removed: The bytes of the constants that only folded nodes use.
        taken: What it takes of the budget.
        unknown: Those of `kept` whose size is not known.
    """

    nodes: list[ir.Node] = field(default_factory=list)
    known: dict[ir.Value, ir.TensorProtocol] = field(default_factory=dict)
    blocked: dict[ir.Node, str] = field(default_factory=dict)
    kept: list[ir.Value] = field(default_factory=list)
    same: dict[ir.Value, ir.Value] = field(default_factory=dict)
    bytes_added: int = 0
    bytes_removed: int = 0
    taken: int = 0
    unknown: list[ir.Value] = field(default_factory=list)


class FoldingState:
    """What is kept with a model from one folding to the next.

    Attributes:
        refused: The nodes that could not be computed, with the reason.
        sizes: The bytes of values that only computing them told.
        taken: What was taken of the budget.
    """

    def __init__(self, model: ir.Model, size: int | None = None, taken: int = 0) -> None:
        self._model = model
        self._size = size
        self.refused: dict[ir.Node, str] = {}
        self.sizes: dict[ir.Value, int] = {}
        self.taken = taken

    @classmethod
    def of(cls, model: Model) -> FoldingState:
        """The state of a model; a clone goes on with its original's budget."""
        found = model.ir.graph.meta.get(_STATE)
        if isinstance(found, cls) and found._model is model.ir:
            return found
        state = cls(model.ir, found._size, found.taken) if isinstance(found, cls) else cls(model.ir)
        model.ir.graph.meta[_STATE] = state
        return state

    def left(self, model: Model, limit: int | None) -> int:
        """How many bytes the model may still grow by; without a limit, to 1.02 times its first size."""
        if limit is None:
            if self._size is None:
                self._size = model.size_bytes
            limit = max(self._size // _SHARE, _LEAST)
        return limit - self.taken


def plan_folding(
    model: Model,
    facts: Facts,
    *,
    budget: Callable[[], int],
    overridable: bool = False,
    refused: dict[ir.Node, str] | None = None,
    sizes: dict[ir.Value, int] | None = None,
) -> FoldingPlan:
    """Decides which nodes fold.

    Args:
        model: The model.
        facts: What is known of its values.
        budget: Gives how many bytes it may grow by; asked only where it would grow.
        overridable: Whether initializers that a caller may override count as constants.
        refused: Nodes that are known not to fold, with the reason.
        sizes: The bytes of values that only computing them tells.
    """
    planner = _Planner(model, facts, overridable, refused or {}, sizes or {})
    planner.collect()
    planner.bound(budget)
    return planner.plan()


def is_constant_node(node: ir.Node) -> bool:
    """Whether a node is a Constant."""
    return node.op_type == "Constant" and default_domain(node)


def behind_identity(value: ir.Value, folded: dict[ir.Node, None]) -> ir.Value:
    """What the users of a folded Identity's output take instead: its source."""
    node = value.producer()
    while (
        node is not None
        and node in folded
        and node.op_type == "Identity"
        and node.inputs[0] is not None
        and not value.is_graph_output()
    ):
        value = node.inputs[0]
        node = value.producer()
    return value


def constants_of(graph: ir.Graph, *, overridable: bool = False) -> Iterator[ir.Value]:
    """The initializers that no caller can override, and the outputs of Constant nodes."""
    yield from (value for value in graph.initializers.values() if overridable or not value.is_graph_input())
    yield from (value for node in graph if is_constant_node(node) for value in node.outputs)


def tensor_bytes(tensor: ir.TensorProtocol) -> int:
    """The bytes that a tensor's contents take in a file."""
    if isinstance(tensor, SparseTensor):
        return len(tensor.raw.raw_data)
    if tensor.dtype == ir.DataType.STRING:
        texts: Iterable[bytes] = tensor.string_data()  # type: ignore[attr-defined]  # only tensors of strings have it
        return sum(map(len, texts))
    return tensor.nbytes


class _Planner:
    def __init__(
        self, model: Model, facts: Facts, overridable: bool, refused: dict[ir.Node, str], sizes: dict[ir.Value, int]
    ) -> None:
        self._model = model
        self._facts = facts
        self._overridable = overridable
        self._refused = refused
        self._sizes = dict(sizes)
        self._constants: set[ir.Value] = set()
        self._folded: dict[ir.Node, None] = {}
        self._known: dict[ir.Node, list[ir.TensorProtocol]] = {}
        self._blocked: dict[ir.Node, str] = {}
        self._firsts: dict[tuple[object, ...], ir.Node] = {}
        self._same: dict[ir.Value, ir.Value] = {}
        self._leaves: dict[ir.Value, object] = {}
        self._reasons: dict[str, str | None] = {}
        self._taken = 0

    # Which could

    def collect(self) -> None:
        """Finds the nodes with constant inputs, outer graphs first."""
        for _, graph in self._model.graphs():
            self._constants.update(
                value
                for value in constants_of(graph, overridable=self._overridable)
                if value.is_initializer() or self._facts.tensor(value) is not None  # a sparse Constant is not read
            )
            for node in graph:
                self._visit(node)

    def _visit(self, node: ir.Node) -> None:
        if is_constant_node(node):
            return
        constants = self._constants
        overridable: ir.Value | None = None
        for value in self._read(node):
            if value is None or value in constants:
                continue
            if not (value.is_graph_input() and value.is_initializer()):
                self._visit_known(node)
                return
            overridable = value
        reason = self._why_not(node)
        if reason is None and overridable is not None:
            reason = f"initializer '{overridable.name}' is an input of the model too, so a caller may override it"
        if reason is not None:
            self._blocked[node] = reason
        elif not self._is_idle(node):
            self._fold(node)

    def _read(self, node: ir.Node) -> Sequence[ir.Value | None]:
        """The inputs whose contents matter: of what a CastLike is to be like, only the element type does."""
        like = node.inputs[1] if node.op_type == "CastLike" and len(node.inputs) > 1 else None
        if like is not None and self._facts.dtype(like) is not None:
            return node.inputs[:1]
        return node.inputs

    def _visit_known(self, node: ir.Node) -> None:
        """A node whose inputs vary and whose outputs do not: the Shape of a value of a fixed shape."""
        if node.op_type not in CONTENTS or not default_domain(node) or node.op_type == "Identity":
            return
        if node.op_identifier() in self._model.ir.functions or node in self._refused:
            return
        tensors = [self._contents(value) for value in node.outputs]
        if all(tensor is not None for tensor in tensors):
            self._known[node] = [tensor for tensor in tensors if tensor is not None]
            self._fold(node)

    def _contents(self, value: ir.Value) -> ir.TensorProtocol | None:
        info = self._facts.info(value)
        shape = self._facts.static_shape(value)
        if info.contents is None or info.dtype not in _WHOLE_TYPES or shape is None:
            return None
        if not all(isinstance(element, int) for element in info.contents):
            return None
        return ir.Tensor(np.array(info.contents, info.dtype.numpy()).reshape(shape))

    def _fold(self, node: ir.Node) -> None:
        self._folded[node] = None
        self._constants.update(node.outputs)
        if node not in self._known:
            first = self._firsts.setdefault(self._meaning(node), node)
            if first is not node:
                self._same.update(zip(node.outputs, first.outputs, strict=True))

    def _meaning(self, node: ir.Node) -> tuple[object, ...]:
        """Equal for nodes that make the same of the same."""
        return (
            node.op_type,
            len(node.outputs),
            *(value and self._identity(value) for value in node.inputs),
            *sorted((name, held.type, _frozen(held.value)) for name, held in node.attributes.items()),
        )

    def _identity(self, value: ir.Value) -> object:
        """Equal for values with the same contents, as far as that is seen without looking into large ones."""
        if value.producer() in self._folded:
            return self._same.get(value, value)
        found = self._leaves.get(value)
        if found is None:
            tensor = self._tensor(value)
            found = value
            if tensor is not None and tensor.dtype != ir.DataType.STRING and tensor.nbytes <= _LARGEST_COMPARED:
                found = (tensor.dtype, tuple(tensor.shape), tensor.tobytes())
            self._leaves[value] = found
        return found

    def _original(self, value: ir.Value) -> ir.Value:
        """The first of the values that are the same; an output stands for itself."""
        found = self._same.get(value)
        return value if found is None or value.is_graph_output() or found.producer() not in self._folded else found

    def _is_idle(self, node: ir.Node) -> bool:
        """Whether folding would only put a large constant in the place of an Identity that an output needs."""
        source = node.inputs[0] if node.op_type == "Identity" and node.outputs[0].is_graph_output() else None
        if source is None or source.producer() in self._folded:
            return False
        return self._facts.static_shape(source) != ()

    def _why_not(self, node: ir.Node) -> str | None:
        """Why a node with constant inputs must not fold, or None."""
        if node in self._refused:
            return self._refused[node]
        if node.op_identifier() in self._model.ir.functions:
            return "it calls a function of the model"
        if not default_domain(node):
            return f"its operator is of the domain '{node.domain}', not ONNX's own"
        if node.attributes and has_subgraph(node):
            return "it has a subgraph, which may use values beyond the node's inputs"
        if any(attribute.is_ref() for attribute in node.attributes.values()):
            return "it has an attribute that refers to a function's"
        if node.op_type == "Dropout":
            return None if self._is_inference(node) else "it may be in training mode, which is random"
        if node.op_type not in self._reasons:
            self._reasons[node.op_type] = self._why_never(node)
        return self._reasons[node.op_type]

    def _why_never(self, node: ir.Node) -> str | None:
        """Why no node of an operator may fold, or None."""
        schema = onnx_schema(self._model, node)
        if schema is None:
            return f"opset {self._model.opset} has no such operator"
        if is_declared_random(schema):
            return "ONNX declares it non-deterministic"
        if any(all(not text.startswith("tensor(") for text in output.types) for output in schema.outputs):
            return "its output is a sequence or an optional, not a tensor"
        if node.op_type == "DequantizeLinear":
            return "folding it would undo the quantisation of the weight"
        return None

    def _is_inference(self, node: ir.Node) -> bool:
        """Whether a Dropout drops nothing: without training mode, or, before opset 7, with `is_test`."""
        if self._model.opset < 7:
            return node.attributes.get_int("is_test", 0) != 0
        training = node.inputs[2] if len(node.inputs) > 2 else None
        if training is None:
            return True
        array = self._facts.array(training)
        return array is not None and not array.any()

    # How many

    def bound(self, budget: Callable[[], int]) -> None:
        """Takes out what would make the model grow too much."""
        growing: list[tuple[float, int, list[ir.Node]]] = []
        for group in _groups(self._folded, self._same):
            largest = max(group, key=self._output_bytes)
            if self._output_bytes(largest) > _LARGEST:
                growing.append((math.inf, len(growing), group))
            elif (added := self._growth(group)) > 0:
                growing.append((added, len(growing), group))
        if not growing:
            return
        left = budget()
        for growth, _, group in sorted(growing):
            self._taken += self._shrink(group, growth, left - self._taken)

    def _shrink(self, group: list[ir.Node], growth: float, left: int) -> int:
        """Takes nodes out of a group until it fits what is left; returns what it takes of that."""
        if growth <= left:
            return int(growth)
        expansion = {node: self._expansion(node) for node in group}
        threshold = max(expansion.values())
        while group and threshold >= SMALL / 16:
            threshold = max(threshold // 4, 1)
            group = self._without(group, {node for node in group if expansion[node] > threshold}, left)
            growth = self._growth(group)
            if growth <= left and all(self._output_bytes(node) <= _LARGEST for node in group):
                return max(0, int(growth))
        self._without(group, set(group), left)
        return 0

    def _without(self, group: list[ir.Node], out: set[ir.Node], left: int) -> list[ir.Node]:
        """Takes nodes, and what needs them, out of the plan."""
        gone: set[ir.Node] = set()
        stay = []
        for node in group:
            makers = {value.producer() for value in node.inputs if value is not None}
            if node in out:
                if makers.isdisjoint(gone) or node in self._known:
                    size = sum(self._bytes(value) or 0 for value in node.outputs if value.uses())
                    self._blocked[node] = (
                        f"folding it would add {size:,} bytes to the model, and {max(left, 0):,} are left of its budget"
                    )
            elif node in self._known or makers.isdisjoint(gone):
                stay.append(node)
                continue
            gone.add(node)
            del self._folded[node]
            self._known.pop(node, None)
        return stay

    def _growth(self, group: list[ir.Node]) -> int:
        added, removed = self._balance(group)
        return added - removed - _NODE_BYTES * len(group)

    def _balance(self, group: Iterable[ir.Node]) -> tuple[int, int]:
        """The bytes that folding some nodes adds, and those that it frees."""
        group = list(group)
        kept = self._kept(group)
        made = {self._original(value) for value in kept if value.producer() in self._folded}
        added = sum(self._bytes(value) or 0 for value in made)
        removed = 0
        for value in dict.fromkeys(value for node in group for value in node.inputs if value is not None):
            if (
                (value.producer() not in self._folded)
                and value not in kept
                and not value.is_graph_output()
                and all(use.node in self._folded for use in value.uses())
            ):
                removed += self._bytes(value) or 0 if self._tensor(value) is not None else 0
        return added, removed

    def _kept(self, nodes: Iterable[ir.Node]) -> dict[ir.Value, None]:
        return dict.fromkeys(
            behind_identity(value, self._folded)
            for node in nodes
            for value in node.outputs
            if value.is_graph_output() or any(use.node not in self._folded for use in value.uses())
        )

    def _tensor(self, value: ir.Value) -> ir.TensorProtocol | None:
        if self._overridable and value.is_initializer():
            return value.const_value
        return self._facts.tensor(value)

    def _expansion(self, node: ir.Node) -> int:
        given = sum(self._bytes(value) or 0 for value in set(node.inputs) if value is not None)
        return self._output_bytes(node) - given

    def _output_bytes(self, node: ir.Node) -> int:
        return sum(self._bytes(value) or 0 for value in node.outputs if value.uses() or value.is_graph_output())

    def _bytes(self, value: ir.Value) -> int | None:
        """The bytes of a value's contents; None where its size is not known."""
        size = self._sizes.get(value, -1)
        if size >= 0:
            return size
        tensor = self._tensor(value)
        if tensor is not None:
            found: int | None = tensor_bytes(tensor)
        else:
            shape, dtype = self._facts.static_shape(value), self._facts.dtype(value)
            found = None
            if shape is not None and dtype is not None and dtype != ir.DataType.STRING:
                found = math.ceil(math.prod(shape) * dtype.bitwidth / 8)
        if found is not None:
            self._sizes[value] = found
        return found

    def plan(self) -> FoldingPlan:
        """What remains."""
        kept = [value for value in self._kept(self._folded) if value.producer() in self._folded]
        added, removed = self._balance(self._folded)
        return FoldingPlan(
            nodes=list(self._folded),
            known={
                value: tensor
                for node, tensors in self._known.items()
                for value, tensor in zip(node.outputs, tensors, strict=True)
            },
            blocked=self._blocked,
            kept=kept,
            same={value: self._original(value) for value in kept},
            bytes_added=added,
            bytes_removed=removed,
            taken=self._taken,
            unknown=[value for value in kept if self._bytes(value) is None],
        )


def _frozen(value: object) -> object:
    """An attribute's value as something that compares and hashes; tensors by identity."""
    return repr(value) if isinstance(value, int | float | str | bytes | tuple | list) else str(id(value))


def _groups(nodes: dict[ir.Node, None], same: dict[ir.Value, ir.Value]) -> list[list[ir.Node]]:
    """The nodes in groups: one makes what another uses, both use a constant worth its bytes, or they make the same."""
    parents = {node: node for node in nodes}

    def root(node: ir.Node) -> ir.Node:
        while parents[node] is not node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    sharing: dict[ir.Value, ir.Node] = {}
    for node in nodes:
        twin = same.get(node.outputs[0]) if node.outputs else None
        if twin is not None and (first := twin.producer()) in nodes:
            parents[root(node)] = root(first)
        for value in node.inputs:
            if value is None:
                continue
            maker = value.producer()
            other = maker if maker in nodes else _sharer(value, node, sharing)
            if other is not None:
                parents[root(node)] = root(other)
    groups: dict[ir.Node, list[ir.Node]] = {}
    for node in nodes:
        groups.setdefault(root(node), []).append(node)
    return list(groups.values())


def _sharer(value: ir.Value, node: ir.Node, sharing: dict[ir.Value, ir.Node]) -> ir.Node | None:
    tensor = value.const_value
    if tensor is None or tensor.dtype == ir.DataType.STRING or tensor.nbytes <= SMALL:
        return None
    return sharing.setdefault(value, node)
