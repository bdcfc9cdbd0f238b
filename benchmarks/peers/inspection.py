"""What a model file has in it: nodes, the bytes it takes, its interface."""

from __future__ import annotations

from pathlib import Path

import onnx

STANDARD = {"", "ai.onnx", "ai.onnx.ml"}


def load(path):
    return onnx.load(str(path), load_external_data=False)


def count_nodes(model):
    """Nodes without Constant, subgraphs counted, each function's body once; and those of other domains among them."""
    functions = {(function.domain, function.name) for function in model.functions}
    waiting = [model.graph.node, *(function.node for function in model.functions)]
    nodes = foreign = 0
    while waiting:
        for node in waiting.pop():
            for attribute in node.attribute:
                waiting.extend(graph.node for graph in (attribute.g, *attribute.graphs) if graph.node)
            if node.op_type == "Constant" and node.domain in STANDARD:
                continue
            nodes += 1
            foreign += node.domain not in STANDARD and (node.domain, node.op_type) not in functions
    return {"nodes": nodes, "foreign": foreign}


def size_bytes(path, model):
    """The file and the files with its weights."""
    tensors = [tensor for tensor in model.graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL]
    beside = {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}
    return sum(file.stat().st_size for file in (Path(path), *(Path(path).parent / name for name in beside)))


def _described(value):
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return f"{value.name} {kind} {value.type.SerializeToString().hex()}"
    tensor = value.type.tensor_type
    element = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
    if not tensor.HasField("shape"):
        return f"{value.name} {element} of any rank"
    return f"{value.name} {element}[{', '.join(dim.dim_param or _size(dim) for dim in tensor.shape.dim)}]"


def _size(dim):
    return str(dim.dim_value) if dim.HasField("dim_value") else "?"


def interface_changes(before, after):
    """What is not as it was in names, order, types and shapes of inputs and outputs."""
    changes = []
    for role in ("input", "output"):
        was, now = ([_described(value) for value in getattr(model.graph, role)] for model in (before, after))
        if was != now:
            pairs = [f"{a} -> {b}" for a, b in zip(was, now, strict=False) if a != b]
            changes.append(f"{role}s: " + ("; ".join(pairs[:3]) or f"{len(was)} -> {len(now)}"))
    return changes
