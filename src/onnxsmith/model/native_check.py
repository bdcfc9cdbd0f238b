"""What ONNX's checker says of a model."""

from __future__ import annotations

import contextlib
import math
import tempfile
from mmap import ACCESS_READ, mmap
from pathlib import Path

import onnx

from onnxsmith.model.messages import all_graphs, dense_tensors, sparse_parts
from onnxsmith.model.wire import Marks, UnusualError, leave_out

TENSOR_TYPES = ("tensor_type", "sparse_tensor_type")
SMALL_TENSOR_ELEMENTS = 1024
_LARGEST_ELEMENT = 16
_WEIGHTS = "weights"
_ORT_DOMAIN = "com.microsoft"


def read(source: Path | bytes) -> onnx.ModelProto:
    """Reads a model that has been read before, ready for the checker: large weights are references to nothing."""
    folder = source.absolute().parent if isinstance(source, Path) else None
    proto = onnx.ModelProto.FromString(_without_weights(source) if isinstance(source, Path) else source)
    _leave_weights_out(proto, folder)
    _hide_ort_operators(proto)
    return proto


def complaint(proto: onnx.ModelProto) -> str | None:
    """What the checker has to say."""
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            # The checker wants to see a file behind each reference, and looks for it here.
            Path(_WEIGHTS).touch()
            onnx.checker.check_model(_with_every_shape(proto))
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        return first_lines(str(error))
    return None


def _without_weights(path: Path) -> bytes:
    with path.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as data:
        try:
            return leave_out(data, Marks(), SMALL_TENSOR_ELEMENTS * _LARGEST_ELEMENT)[0]
        except UnusualError:
            return data[:]


def _with_every_shape(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which no input or output lacks a shape, which runtimes do not ask for and the checker does."""
    checked = onnx.ModelProto()
    checked.CopyFrom(proto)
    for graph in all_graphs(checked):
        for info in (*graph.input, *graph.output):
            kind = info.type.WhichOneof("value")
            if kind in TENSOR_TYPES:
                getattr(info.type, kind).shape.SetInParent()
    return checked


def _leave_weights_out(proto: onnx.ModelProto, folder: Path | None) -> None:
    """Makes large tensors references to nothing, and takes in small ones, which shape inference may need.

    Neither the checker nor shape inference looks into weights, whose sizes have been checked, and both copy the model.
    """
    for tensor in sparse_parts(proto):
        if folder is not None and tensor.data_location == onnx.TensorProto.EXTERNAL:
            _embed(tensor, folder)
    for tensor in dense_tensors(proto):
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        small = math.prod(tensor.dims) <= SMALL_TENSOR_ELEMENTS
        if external and small and folder is not None:
            _embed(tensor, folder)
        elif external or (not small and tensor.HasField("raw_data")):
            tensor.ClearField("raw_data")
            tensor.ClearField("external_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value=_WEIGHTS)


def _embed(tensor: onnx.TensorProto, folder: Path) -> None:
    from onnxsmith.model import bare_onnx

    bare_onnx.uninstall()
    from onnxsmith.model.external_data import embed  # it brings onnx-ir with it, which needs all of onnx

    embed(tensor, folder)


def _hide_ort_operators(proto: onnx.ModelProto) -> None:
    """Moves operators that ONNX Runtime alone defines in the default domain to its own, where the checker lets them be.

    Its optimiser writes such nodes (LayerNormalization below opset 17, SimplifiedLayerNormalization).
    """
    version = next((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 1)
    if proto.functions or not _hide_in(proto.graph, version):
        return
    if all(entry.domain != _ORT_DOMAIN for entry in proto.opset_import):
        proto.opset_import.add(domain=_ORT_DOMAIN, version=1)


_ORT_DEFAULT_DOMAIN_OPERATORS = frozenset(
    {"LayerNormalization", "SimplifiedLayerNormalization", "Gelu", "RMSNormalization", "MemcpyFromHost", "MemcpyToHost"}
)


def _hide_in(graph: onnx.GraphProto, version: int) -> bool:
    found = False
    for node in graph.node:
        if (
            node.domain in ("", "ai.onnx")
            and node.op_type in _ORT_DEFAULT_DOMAIN_OPERATORS
            and not _has_schema(node.op_type, version)
        ):
            node.domain = _ORT_DOMAIN
            found = True
        for attribute in node.attribute:
            for subgraph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                found = _hide_in(subgraph, version) or found
    return found


def _has_schema(op_type: str, version: int) -> bool:
    try:
        onnx.defs.get_schema(op_type, version, "")
    except onnx.defs.SchemaError:
        return False
    return True


def first_lines(text: str, count: int = 3) -> str:
    """The first lines of a complaint, as one."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return " ".join(lines[:count]) or "no reason given"
