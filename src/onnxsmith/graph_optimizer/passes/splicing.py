"""A graph in the place of the node that carries it: what a branch, a body or a function has in common."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import INITIALIZERS_WITHOUT_INPUTS, Editor


def splice(editor: Editor, node: ir.Node, body: ir.Graph, arguments: Sequence[ir.Value | None] = ()) -> list[ir.Value]:
    """Moves the nodes and initializers of a graph to where a node stands; the graph is empty afterwards.

    Args:
        editor: The editor, its root being the node.
        node: The node.
        body: A graph whose values' names are unique in the model; nodes get new names.
        arguments: What stands for the body's inputs; None for one that is left out.

    Returns:
        The values that were the body's outputs, all of them there before the node.
    """
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    mapping = dict(zip(list(body.inputs), arguments, strict=True))
    outputs = [mapping.get(value, value) for value in body.outputs]
    body.outputs.clear()
    for old, new in mapping.items():
        for use in list(old.uses()):
            use.node.replace_input_with(use.idx, new)
    initializers = {value: value for value in body.initializers.values()}
    body.initializers.clear()
    for value in initializers:
        assert value.const_value is not None
        if editor.model.ir_version < INITIALIZERS_WITHOUT_INPUTS:
            constant = editor.constant(value.const_value)
            value.replace_all_uses_with(constant)
            initializers[value] = constant
        else:
            graph.register_initializer(value)
    nodes = list(body)
    body.remove(nodes)
    for moved in nodes:
        if moved.name:
            moved.name = editor.fresh(moved.name)
        editor.mark(moved)
    graph.insert_before(node, nodes)
    made = [initializers.get(value, value) for value in outputs if value is not None]
    assert len(made) == len(outputs)
    return made
