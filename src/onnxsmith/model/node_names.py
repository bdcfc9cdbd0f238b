"""Names of nodes, which ONNX lets repeat."""

from __future__ import annotations

from itertools import count

import onnx_ir as ir


def with_unique_node_names(model: ir.Model) -> ir.Model:
    """A copy in which no two nodes of a graph have the same name; the first keeps it, the next get a number."""
    copy = model.clone()
    for graph in copy.graphs():
        taken = {node.name for node in graph if node.name}
        seen: set[str] = set()
        for node in graph:
            if node.name in seen:
                node.name = next(name for number in count(1) if (name := f"{node.name}_{number}") not in taken)
                taken.add(node.name)
            if node.name:
                seen.add(node.name)
    return copy
