"""Matching a shape of operators against a graph, from its last node backwards.

A term says what a value must be:

- `"x"`: the same value wherever the name stands; `"_"`: anything, a missing input too; `"const"`: a constant.
- `0.5`: a constant of one element with this value.
- `("Mul|Div", term, …)`: the output of such an operator, as `pattern_name` calls it, whose inputs fit the terms in
  order. Inputs beyond the terms may be anything; `...` at the end repeats the last term for all of them. `Add` and
  `Mul` of two terms fit in either order. A dict among the terms gives attributes; a missing attribute counts as 0.
  `"*"` is any operator of ONNX's own.
- `("*Mul|Add", term)`: what fits the term, after any number of such operators on the way.
- `[term, …]`: any one of these.

No-ops (Identity, Dropout in inference, and changes of the CPU's layout) are looked through. Each step is local, so
matching is linear in the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.convenience import get_const_tensor

Term = str | float | tuple[Any, ...] | list[Any]

_TOLERANCE = 2e-3
"""Relative; a constant that was rounded to float16 or bfloat16 still counts."""

_MOST_NODES = 32
"""A chain stops growing here."""

_KEEPS_ELEMENTS = frozenset({"Identity", "Reshape", "Unsqueeze", "Squeeze", "Cast", "Flatten", "Transpose"})
"""Operators whose output is constant when their first input is, with the same elements."""


_REORDERS = frozenset({"com.microsoft.nchwc::ReorderInput", "com.microsoft.nchwc::ReorderOutput"})


@dataclass(frozen=True)
class Match:
    """Nodes that fit a term.

    Attributes:
        nodes: The nodes, the last one first, each once.
        skipped: No-ops on the way.
        names: The values that the names of the term stand for.
        numbers: Each constant that had to be a number, and that number.
    """

    nodes: tuple[ir.Node, ...] = ()
    skipped: tuple[ir.Node, ...] = ()
    names: Mapping[str, ir.Value] = field(default_factory=dict)
    numbers: tuple[tuple[ir.Value, float], ...] = ()

    def node(self, *names: str) -> ir.Node:
        """A node of one of these operators; the one farthest from the last node, where there are several."""
        return next(node for node in reversed(self.nodes) if pattern_name(node) in names)

    def is_closed(self, shared: frozenset[str] = frozenset()) -> bool:
        """Whether only the last node's first output leaves the match, so that one operator can stand for it.

        Args:
            shared: Operators whose output others may use as well.
        """
        inside = {*self.nodes, *self.skipped}
        root = self.nodes[0]
        for node in inside:
            for index, value in enumerate(node.outputs):
                if (node is root and index == 0) or pattern_name(node) in shared:
                    continue
                if value.is_graph_output() or any(use.node not in inside for use in value.uses()):
                    return False
        return all(node.graph is root.graph for node in inside)


def match(term: Term, node: ir.Node) -> Iterator[Match]:
    """Every way in which a node fits a term of an operator, or one of a list of them."""
    for choice in term if isinstance(term, list) else [term]:
        if isinstance(choice, tuple):
            yield from _match_node(choice, node, Match())


def root_types(term: Term) -> set[str]:
    """The operators that can be the last node of a term."""
    choices = term if isinstance(term, list) else [term]
    return {op_type for choice in choices if isinstance(choice, tuple) for op_type in choice[0].split("|")}


def default_domain(node: ir.Node) -> bool:
    """Whether the node's operator is ONNX's own."""
    return node.domain in ("", "ai.onnx")


def pattern_name(node: ir.Node) -> str:
    """The operator that a node counts as in a term: "Conv", or "my.domain::Op" outside of ONNX's default domain.

    A graph that ONNX Runtime has optimised has operators of its own. Two of them only stand in for ONNX's, and what is
    around them is as unfused as before: a FusedMatMul, which has taken up a scale or a Transpose, counts as a MatMul;
    a Conv in the CPU's NCHWc layout that has taken up neither an activation nor a sum, as a Conv.
    """
    if default_domain(node):
        return node.op_type
    name = f"{node.domain}::{node.op_type}"
    if name == "com.microsoft::FusedMatMul":
        return "MatMul"
    if name == "com.microsoft.nchwc::Conv" and "activation" not in node.attributes and len(node.inputs) <= 3:
        return "Conv"
    return name


def is_noop(node: ir.Node) -> bool:
    """Whether a node only passes its first input on: Identity, and Dropout in inference without a mask."""
    if not default_domain(node) or not node.inputs or node.inputs[0] is None:
        return False
    if node.op_type == "Identity":
        return True
    if node.op_type != "Dropout" or any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        return False
    training = node.inputs[2] if len(node.inputs) > 2 else None
    return training is None or scalar(training) == 0


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor of a constant: of an initializer that no caller can override, or of a Constant node."""
    if value is None or value.is_graph_input():
        return None
    try:
        return get_const_tensor(value)
    except ValueError:  # a sparse constant
        return None


def constant_source(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor that a value has its elements from: itself, or one behind Transpose, Reshape, Cast and their like."""
    while value is not None:
        node = value.producer()
        if node is None or node.op_type not in _KEEPS_ELEMENTS or not default_domain(node) or not node.inputs:
            break
        value = node.inputs[0]
    return constant(value)


def scalar(value: ir.Value | None) -> float | None:
    """The number in a constant of one element, or None."""
    tensor = constant_source(value)
    if tensor is None or tensor.size != 1 or tensor.dtype == ir.DataType.STRING:
        return None
    array = np.asarray(tensor.numpy())
    return None if array.dtype.kind == "c" else float(array.reshape(()))


def integers(value: ir.Value | None) -> tuple[int, ...] | None:
    """The numbers in an integer constant, or None."""
    tensor = constant_source(value)
    if tensor is None or not tensor.dtype.is_integer():
        return None
    return tuple(int(number) for number in np.asarray(tensor.numpy()).reshape(-1))


def _match(term: Term, value: ir.Value | None, so_far: Match) -> Iterator[Match]:
    if isinstance(term, list):
        for choice in term:
            yield from _match(choice, value, so_far)
    elif term == "_":
        yield so_far
    elif value is None:
        return
    elif term == "const":
        if constant_source(value) is not None:
            yield so_far
    elif isinstance(term, str):
        source, skipped = _through(value)
        bound = so_far.names.get(term, source)
        if bound is source:
            names = {**so_far.names, term: source}
            yield replace(so_far, skipped=so_far.skipped + skipped, names=names)
    elif isinstance(term, tuple):
        source, skipped = _through(value)
        node = source.producer()
        here = replace(so_far, skipped=so_far.skipped + skipped)
        if node is not None and source is node.outputs[0]:
            yield from _match_chain(term, node, here) if _is_chain(term) else _match_node(term, node, here)
        if _is_chain(term):
            yield from _match(term[1], value, so_far)
    else:
        number = scalar(value)
        if number is not None and math.isclose(number, term, rel_tol=_TOLERANCE, abs_tol=1e-6):
            yield replace(so_far, numbers=(*so_far.numbers, (value, term)))


def _through(value: ir.Value) -> tuple[ir.Value, tuple[ir.Node, ...]]:
    """The value behind no-ops, and those."""
    skipped: tuple[ir.Node, ...] = ()
    node = value.producer()
    while node is not None and (is_noop(node) or pattern_name(node) in _REORDERS) and node.inputs[0] is not None:
        skipped += (node,)
        value = node.inputs[0]
        node = value.producer()
    return value, skipped


def _is_chain(term: tuple[Any, ...]) -> bool:
    return len(term[0]) > 1 and term[0].startswith("*")


def _match_chain(term: tuple[Any, ...], node: ir.Node, so_far: Match) -> Iterator[Match]:
    """The matches in which `node` is a link of the chain.

    A link with several users would not be closed; following none of those keeps the search linear.
    """
    if pattern_name(node) not in term[0][1:].split("|"):
        return
    if len(node.outputs[0].consumers()) == 1 and len(so_far.nodes) < _MOST_NODES:
        for value in dict.fromkeys(node.inputs):
            yield from _match(term, value, _with(node, so_far))


def _match_node(term: tuple[Any, ...], node: ir.Node, so_far: Match) -> Iterator[Match]:
    wanted = term[0]
    if not (default_domain(node) if wanted == "*" else pattern_name(node) in wanted.split("|")):
        return
    attributes = next((part for part in term[1:] if isinstance(part, dict)), {})
    if not all(_attribute_is(node, name, wanted) for name, wanted in attributes.items()):
        return
    terms = _for_inputs([part for part in term[1:] if not isinstance(part, dict)], node)
    if len(terms) > len(node.inputs):
        return
    yield from _match_inputs(terms, node.inputs, _with(node, so_far))
    if node.op_type in ("Add", "Mul") and len(terms) == 2:
        yield from _match_inputs(terms, node.inputs[::-1], _with(node, so_far))


def _with(node: ir.Node, so_far: Match) -> Match:
    nodes = so_far.nodes if node in so_far.nodes else (*so_far.nodes, node)
    return replace(so_far, nodes=nodes)


def _for_inputs(terms: list[Term | EllipsisType], node: ir.Node) -> list[Term]:
    if terms and terms[-1] is ...:
        repeated = terms[-2]
        terms = terms[:-2] + [repeated] * (len(node.inputs) - len(terms) + 2)
    return [term for term in terms if not isinstance(term, EllipsisType)]


def _match_inputs(terms: list[Term], values: Sequence[ir.Value | None], so_far: Match) -> Iterator[Match]:
    if not terms:
        yield so_far
        return
    for found in _match(terms[0], values[0], so_far):
        yield from _match_inputs(terms[1:], values[1:], found)


def _attribute_is(node: ir.Node, name: str, wanted: float | str) -> bool:
    attribute = node.attributes.get(name)
    if attribute is None:
        return wanted in (0, "")
    if attribute.is_ref():
        return False
    if isinstance(wanted, str):
        return bool(attribute.value == wanted)
    return isinstance(attribute.value, int | float) and math.isclose(attribute.value, wanted, rel_tol=_TOLERANCE)
