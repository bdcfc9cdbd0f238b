"""How a pass changes a graph: every edit goes through here, so that names, outputs and provenance stay right."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxsmith.graph_analysis.nesting import subgraphs, with_nested
from onnxsmith.graph_analysis.symbolic import Dim, Facts
from onnxsmith.graph_optimizer.passes.base import Note
from onnxsmith.model import Model

PROVENANCE = "onnxsmith.pass"
"""The key in a node's metadata under which stands the pass that made it."""

_STATE = "onnxsmith.editing"
INITIALIZERS_WITHOUT_INPUTS = 4
"""The IR version from which an initializer need not be a graph input; one that is can be overridden from then on."""

_CROWD = 64
"""The users of a value above which a change to it brings none of them back: to list thousands each time is slow."""


class Editor:
    """The graph of a model under a pass's hands.

    What is known about values (`facts`) is kept with the model from pass to pass.

    Attributes:
        model: The onnx-ir model.
        facts: Shapes, dtypes, constants and partly known contents of values.
        opset: The version of the default domain.
        changes: How many times `count` was called.
        notes: What was declined.
        root: The node that is being looked at; new nodes go before it.
        kept: What a pass keeps for itself while it runs.
    """

    def __init__(self, model: Model, name: str) -> None:
        self.model = model.ir
        self.name = name
        state = model.ir.graph.meta.get(_STATE)
        if not isinstance(state, _State) or state.model is not model.ir:  # a clone carries its original's
            state = model.ir.graph.meta[_STATE] = _State(model.ir)
        self._state = state
        self.facts = state.facts
        self.opset = model.opset
        self.changes = 0
        self.notes: list[Note] = []
        self.root: ir.Node | None = None
        self.kept: dict[str, Any] = {}
        self._touched: list[ir.Node] = []
        self._crowded: set[ir.Value] = set()
        self._standard: dict[str, bool] = {}

    # What is there

    def graphs(self) -> Iterator[ir.Graph]:
        """The main graph and every subgraph, outer ones first; function bodies not included."""
        waiting = deque([self.model.graph])
        while waiting:
            graph = waiting.popleft()
            yield graph
            for node in graph:
                waiting.extend(subgraphs(node))

    def nodes(self) -> list[ir.Node]:
        """Every node of these graphs."""
        return [node for graph in self.graphs() for node in graph]

    def is_standard(self, node: ir.Node, *op_types: str) -> bool:
        """Whether a node is a standard operator at the model's opset, and one of `op_types` where any are given.

        A model's own function of the same name in the default domain is not.
        """
        if node.domain not in ("", "ai.onnx") or (op_types and node.op_type not in op_types):
            return False
        if node.op_identifier() in self.model.functions:
            return False
        known = self._standard.get(node.op_type)
        if known is None:
            known = self._standard[node.op_type] = self.has_operator(node.op_type)
        return known

    def has_operator(self, op_type: str, opset: int | None = None) -> bool:
        """Whether the default domain has an operator at an opset, by default the model's."""
        try:
            schema = onnx.defs.get_schema(op_type, opset or self.opset, "")
        except onnx.defs.SchemaError:
            return False
        return not schema.deprecated

    def producer(self, value: ir.Value | None, *op_types: str) -> ir.Node | None:
        """The standard node that makes a value, where it is one of `op_types`."""
        node = value.producer() if value is not None else None
        return node if node is not None and self.is_standard(node, *op_types) else None

    def shape(self, value: ir.Value | None) -> tuple[Dim, ...] | None:
        """A value's shape, each dimension a number or a symbolic expression; None where the rank is unknown."""
        return None if value is None else self.facts.shape(value)

    def static_shape(self, value: ir.Value | None) -> tuple[int, ...] | None:
        """A value's shape where every dimension is a number."""
        return None if value is None else self.facts.static_shape(value)

    def rank(self, value: ir.Value | None) -> int | None:
        """A value's rank."""
        return None if value is None else self.facts.rank(value)

    def dtype(self, value: ir.Value | None) -> ir.DataType | None:
        """A value's element type."""
        return None if value is None else self.facts.dtype(value)

    def array(self, value: ir.Value | None) -> np.ndarray | None:
        """A constant's contents, not to be written to; None for what is none, an overridable initializer included."""
        return None if value is None else self.facts.array(value)

    def tensor(self, value: ir.Value | None) -> ir.TensorProtocol | None:
        """A constant's tensor, unread."""
        return None if value is None else self.facts.tensor(value)

    def is_constant(self, value: ir.Value | None) -> bool:
        """Whether a value is an initializer that no caller can override, or a Constant node's."""
        return value is not None and self.facts.is_constant(value)

    def scalar(self, value: ir.Value | None) -> float | int | bool | None:
        """The number in a constant of one element and rank 0 or 1."""
        tensor = self.tensor(value)
        if tensor is None or tensor.size != 1 or len(tensor.shape) > 1 or tensor.dtype == ir.DataType.STRING:
            return None
        array = self.array(value)
        return None if array is None else array.reshape(()).item()

    def ints(self, value: ir.Value | None) -> list[int] | None:
        """The numbers in a constant of whole numbers of rank 0 or 1."""
        tensor = self.tensor(value)
        if tensor is None or len(tensor.shape) > 1 or tensor.dtype not in (ir.DataType.INT64, ir.DataType.INT32):
            return None
        array = self.array(value)
        return None if array is None else [int(number) for number in array.reshape(-1)]

    def attribute(self, node: ir.Node, name: str, default: Any = None) -> Any:
        """An attribute's value, or the default where it is missing.

        Raises:
            Unknown: It refers to a function's attribute.
        """
        attribute = node.attributes.get(name)
        if attribute is None:
            return default
        if attribute.is_ref():
            raise Unknown(f"attribute '{name}' is a reference")
        return attribute.value

    def only_user(self, value: ir.Value) -> ir.Node | None:
        """The one node that uses a value, where it uses it once and the value is no graph's output."""
        if value.is_graph_output():
            return None
        uses = value.uses()
        return next(iter(uses)).node if len(uses) == 1 else None

    # Changes

    def constant(self, contents: np.ndarray | np.generic | ir.TensorProtocol, hint: str = "constant") -> ir.Value:
        """A new constant, usable at the root: an initializer of its graph, or a Constant node before IR version 4.

        Args:
            contents: An array or a NumPy number (its dtype is the tensor's), or a tensor.
            hint: What its name starts with.
        """
        name = self.fresh(hint)
        if isinstance(contents, np.ndarray | np.generic):
            array = np.asarray(contents)
            tensor: ir.TensorProtocol = ir.tensor(np.ascontiguousarray(array).reshape(array.shape), name=name)
        else:
            tensor = contents
        root = self._root()
        graph = root.graph
        assert isinstance(graph, ir.Graph)
        if self.model.ir_version < INITIALIZERS_WITHOUT_INPUTS:
            return self.emit("Constant", [], {"value": tensor})
        value = ir.Value(
            name=name,
            const_value=tensor,
            shape=ir.Shape(tensor.shape.numpy()),
            type=ir.TensorType(tensor.dtype),
        )
        graph.register_initializer(value)
        return value

    def emit(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
        hint: str | None = None,
    ) -> ir.Value:
        """A new node with one output, before the root.

        Args:
            op_type: The operator.
            inputs: Its inputs; they must be there before the root.
            attributes: Python values, or `ir.Attr`.
            domain: The operator's domain.
            hint: What the output's name starts with.
        """
        return self.emit_many(op_type, inputs, attributes, 1, domain=domain, hint=hint)[0]

    def emit_many(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None,
        outputs: int,
        *,
        domain: str = "",
        hint: str | None = None,
    ) -> tuple[ir.Value, ...]:
        """A new node with several outputs, before the root."""
        root = self._root()
        stem = hint or (root.outputs[0].name if root.outputs else None) or op_type
        node = ir.Node(
            domain,
            op_type,
            list(inputs),
            [
                given if isinstance(given, ir.Attr) else ir.convenience.convert_attribute(name, given)
                for name, given in (attributes or {}).items()
                if given is not None
            ],
            outputs=[ir.Value(name=self.fresh(stem)) for _ in range(outputs)],
            name=self.fresh(root.name) if root.name else "",
        )
        node.metadata_props[PROVENANCE] = self.name
        graph = root.graph
        assert graph is not None
        graph.insert_before(root, node)
        if domain not in ("", "ai.onnx") and domain not in self.model.opset_imports:
            self.model.opset_imports[domain] = 1
        self._touched.append(node)
        return tuple(node.outputs)

    def replace(self, old: ir.Value, new: ir.Value) -> None:
        """Puts `new` in every place where `old` is used; a graph's output keeps its name and its declared type.

        What made `old` goes if nothing else needs it. Where `new` cannot be the output itself (it is an input, an
        initializer, an output already, or of another graph), an Identity stands between.
        """
        if old is new:
            return
        self._touch_users(old)
        if old.is_graph_output():
            self._replace_output(old, new)
        old.replace_all_uses_with(new, replace_graph_outputs=False)
        producer = old.producer()
        if producer is not None:
            self.remove_unused(producer)

    def replace_node(
        self,
        node: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
    ) -> None:
        """Puts another node in the place of one, output for output; what only the old one needed goes."""
        root, self.root = self.root, node
        made = self.emit_many(op_type, inputs, attributes, len(node.outputs), domain=domain)
        producer = made[0].producer()
        assert producer is not None
        if node.name:
            producer.name, node.name = node.name, producer.name
        for old, new in zip(list(node.outputs), made, strict=True):
            self.replace(old, new)
        self.root = root

    def set_input(self, node: ir.Node, index: int, value: ir.Value | None) -> None:
        """Gives a node another input; what only the old input needed goes."""
        old = node.inputs[index]
        node.replace_input_with(index, value)
        self.mark(node)
        if old is not None and (producer := old.producer()) is not None:
            self.remove_unused(producer)
            self._touched.append(producer)

    def set_attribute(self, node: ir.Node, name: str, value: Any) -> None:
        """Sets an attribute of a node."""
        node.attributes[name] = ir.convenience.convert_attribute(name, value)
        self.facts.forget_values(node.outputs)
        self.mark(node)

    def mark(self, node: ir.Node) -> None:
        """Says that this pass had its hands on a node, which is then looked at again."""
        node.metadata_props[PROVENANCE] = self.name
        self._touched.append(node)

    def remove_unused(self, node: ir.Node) -> int:
        """Removes a node that nothing uses, and then what only it used. Returns how many nodes went."""
        waiting, gone = [node], 0
        while waiting:
            node = waiting.pop()
            graph = node.graph
            if graph is None or any(output.uses() or output.is_graph_output() for output in node.outputs):
                continue
            used = list(_detach(node))
            graph.remove(node)
            gone += 1
            for value in used:
                producer = value.producer()
                if producer is not None:
                    waiting.append(producer)
                    self._touched.append(producer)
                if not value.is_initializer():  # a shared one may have very many users, and copying them takes time
                    self._touch_users(value)
        return gone

    def count(self) -> None:
        """Counts a change."""
        self.changes += 1

    def decline(self, node: ir.Node, reason: str) -> bool:
        """Notes why a rule that matched does not apply. Returns False, for `return editor.decline(…)`."""
        self.notes.append(Note(name=self.name, node=label(node), op_type=node.op_type, reason=reason))
        return False

    def fresh(self, hint: str) -> str:
        """A name that no value and no node of the model has."""
        return self._state.fresh(hint)

    def take_touched(self) -> list[ir.Node]:
        """The nodes that were made, or whose surroundings changed, since the last call."""
        touched, self._touched = self._touched, []
        return touched

    def _root(self) -> ir.Node:
        assert self.root is not None, "a pass sets `root` before it makes nodes"
        return self.root

    def _touch_users(self, value: ir.Value) -> None:
        if value in self._crowded:
            return
        uses = value.uses()
        if len(uses) > _CROWD:
            self._crowded.add(value)
        else:
            self._touched.extend(use.node for use in uses)

    def _replace_output(self, old: ir.Value, new: ir.Value) -> None:
        graph = old.graph
        assert graph is not None
        producer = new.producer()
        if producer is None or producer.graph is not graph or new.is_graph_output():
            new = self.emit("Identity", [new])
        name = old.name
        old.name = self.fresh(name or "output")
        new.name = name
        new.type, new.shape, new.doc_string = old.type, old.shape, old.doc_string
        new.metadata_props.update(old.metadata_props)
        for index, output in enumerate(graph.outputs):
            if output is old:
                graph.outputs[index] = new


class Unknown(Exception):  # noqa: N818 - an answer, not an error
    """Something that a rule needs is not known; the rule does not apply."""


class _State:
    """What is kept with a model from pass to pass."""

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.facts = Facts(model)
        self._names: set[str] = set()
        self._counters: dict[str, int] = {}
        _collect_names(model, self._names)

    def fresh(self, hint: str) -> str:
        number = self._counters.get(hint, 0)
        while True:
            number += 1
            name = f"{hint}_{number}"
            if name not in self._names:
                self._counters[hint] = number
                self._names.add(name)
                return name


def _collect_names(model: ir.Model, names: set[str]) -> None:
    """Collects all names, and gives what shadows a name of an outer graph one of its own."""
    waiting: deque[ir.Graph] = deque([model.graph])
    shadowing: list[ir.Value] = []
    while waiting:
        graph = waiting.popleft()
        values = [*graph.inputs, *(value for value in graph.initializers.values() if not value.is_graph_input())]
        for node in graph:
            if node.name:
                names.add(node.name)
            values.extend(node.outputs)
            waiting.extend(subgraphs(node))
        for value in values:
            if value.name:
                if value.name in names and graph is not model.graph:
                    shadowing.append(value)
                names.add(value.name)
    for number, value in enumerate(shadowing):
        name = f"{value.name}_inner_{number}"
        while name in names:
            name += "_"
        names.add(name)
        value.name = name


def label(node: ir.Node) -> str:
    """What a node is called: its name, or its operator and its first output."""
    if node.name:
        return node.name
    output = next((value.name for value in node.outputs if value.name), "")
    return f"{node.op_type}({output})"


def _detach(node: ir.Node) -> Iterable[ir.Value]:
    """Takes a node and all that is in its subgraphs off their inputs, and gives these."""
    for current in with_nested(node):
        for index, value in enumerate(current.inputs):
            if value is not None:
                yield value
                current.replace_input_with(index, None)
