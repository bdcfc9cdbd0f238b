"""Graphs within nodes."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import onnx
import onnx_ir as ir

WITH_GRAPHS = frozenset(("If", "Loop", "Scan", "SequenceMap"))
"""The standard operators that have graphs among their attributes."""


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs in a node's attributes."""
    if node.domain == "" and not _may_hold_graphs(node.op_type):
        return
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def has_subgraph(node: ir.Node) -> bool:
    """Whether the node carries a graph: If, Loop, Scan."""
    return next(subgraphs(node), None) is not None


def with_nested(node: ir.Node) -> Iterator[ir.Node]:
    """A node and all nodes in its graphs."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        for graph in subgraphs(current):
            waiting.extend(graph)


@functools.cache
def _may_hold_graphs(op_type: str) -> bool:
    """Whether an operator of the default domain has graphs among its attributes; one that nobody knows may."""
    return op_type in WITH_GRAPHS or not onnx.defs.has(op_type)
