"""A part of a model as a model of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_analysis.nesting import subgraphs, with_nested
from onnxsmith.model import Model


def boundary(model: Model, places: Collection[int]) -> tuple[list[str], list[str]]:
    """The values that go into a set of nodes, and those that come out.

    Args:
        model: The model.
        places: The places of the nodes in the main graph.

    Returns:
        The names of what the nodes use and others make, graph inputs included and constants not; and of what they make
        and others use, or the model gives out.
    """
    incoming: dict[str, None] = {}
    made: dict[ir.Value, str] = {}
    outgoing: dict[str, None] = {}
    graph = model.ir.graph
    constants = {value for value in graph.initializers.values() if not value.is_graph_input()}
    own = set(graph.inputs)
    for place, node in enumerate(graph):
        used = [value for value in used_values(node) if value in own]
        if place in places:
            incoming |= {value.name or "": None for value in used if value not in made and value not in constants}
            made |= {value: value.name for value in node.outputs if value.name}
        else:
            outgoing |= {made[value]: None for value in used if value in made}
        own.update(node.outputs)
    outgoing |= {made[value]: None for value in graph.outputs if value in made}
    return list(incoming), list(outgoing)


def extract(model: Model, places: Collection[int], contents: Mapping[str, Any]) -> Model:
    """The nodes at some places of the main graph, as a model.

    Args:
        model: The model; it stays as it is.
        places: The places of the nodes.
        contents: Arrays for the values that go in, whose dtypes and shapes the inputs get, and for those that come out:
            one whose type nobody declared gets the array's.
    """
    incoming, outgoing = boundary(model, places)
    copy = Model(model.ir.clone())
    graph = copy.ir.graph
    nodes = list(graph)
    values = {value.name: value for node in nodes for value in node.outputs} | {
        value.name: value for value in graph.inputs
    }
    inputs = []
    for name in incoming:
        old = values[name]
        array = np.asarray(contents[name])
        new = ir.Value(
            name=name, shape=ir.Shape(array.shape), type=old.type or ir.TensorType(ir.DataType.from_numpy(array.dtype))
        )
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        inputs.append(new)
    graph.outputs[:] = [values[name] for name in outgoing]
    for value in graph.outputs:
        content = contents.get(value.name or "")
        if value.type is None and isinstance(content, np.ndarray):
            value.type, value.shape = ir.TensorType(ir.DataType.from_numpy(content.dtype)), ir.Shape(content.shape)
    for name in incoming:
        values[name].name = f"{name}_outside"
        graph.initializers.pop(name, None)
    graph.inputs[:] = inputs
    for place in range(len(nodes) - 1, -1, -1):
        if place not in places:
            graph.remove(nodes[place])
    used = {value for node in graph for value in used_values(node)}
    for name, value in list(graph.initializers.items()):
        if value not in used:
            del graph.initializers[name]
    return copy


def with_outputs(model: Model, names: Collection[str]) -> Model:
    """The model with other outputs: values of its main graph, by name."""
    copy = Model(model.ir.clone())
    graph = copy.ir.graph
    values = {value.name: value for node in graph for value in node.outputs} | {
        value.name: value for value in graph.inputs
    }
    graph.outputs[:] = [values[name] for name in names]
    return copy


def used_values(node: ir.Node) -> Iterator[ir.Value]:
    """What a node uses, in its subgraphs too."""
    for current in with_nested(node):
        yield from (value for value in current.inputs if value is not None)
        for graph in subgraphs(current):
            yield from graph.outputs
