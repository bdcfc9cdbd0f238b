"""External data: every reference is checked before a byte of it is read.

A model comes from strangers; a location such as `../../etc/passwd` must not reach a reader.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx_ir as ir

from onnxsmith.errors import ExternalDataError


def all_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of a model: initializers, attributes, subgraphs, functions, sparse and training ones."""
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)
        yield from _attribute_tensors(function.attribute_proto)
    for training in model.training_info:
        yield from _graph_tensors(training.initialization)
        yield from _graph_tensors(training.algorithm)


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: object) -> Iterator[onnx.TensorProto]:
    for node in nodes:  # type: ignore[attr-defined]  # protobuf's repeated fields have no common type
        yield from _attribute_tensors(node.attribute)


def _attribute_tensors(attributes: object) -> Iterator[onnx.TensorProto]:
    for attribute in attributes:  # type: ignore[attr-defined]  # as above
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("sparse_tensor"):
            yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
        for sparse in attribute.sparse_tensors:
            yield from (sparse.values, sparse.indices)
        if attribute.HasField("g"):
            yield from _graph_tensors(attribute.g)
        for graph in attribute.graphs:
            yield from _graph_tensors(graph)


def check_external_data(model: onnx.ModelProto, model_file: Path) -> tuple[Path, ...]:
    """Checks every external reference of a model.

    Args:
        model: The model, its external data not loaded.
        model_file: Its file; locations are relative to that file's folder.

    Returns:
        The external files, each once, sorted.

    Raises:
        ExternalDataError: A location is absolute or leaves the folder, its file is missing, or it is too short.
    """
    folder = model_file.resolve().parent if not model_file.is_symlink() else model_file.absolute().parent.resolve()
    sizes: dict[Path, int] = {}
    for tensor in all_tensors(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        path = _safe_path(entries.get("location", ""), folder, tensor.name, model_file)
        if path not in sizes:
            sizes[path] = _size(path, tensor.name, model_file)
        _check_range(tensor, entries, sizes[path], path, model_file)
    return tuple(sorted(sizes))


def _safe_path(location: str, folder: Path, tensor: str, model_file: Path) -> Path:
    if not location:
        raise ExternalDataError(f"{model_file}: tensor '{tensor}' is external, but names no file.")
    path = folder / location
    # `resolve` follows links, so a link that leaves the folder is caught with the rest.
    if Path(location).is_absolute() or not path.resolve().is_relative_to(folder):
        raise ExternalDataError(
            f"{model_file}: tensor '{tensor}' points to '{location}', which is outside the model's folder.",
            "External data must lie beside the model or below it. Where it is a link, put the file itself there.",
        )
    return path


def _size(path: Path, tensor: str, model_file: Path) -> int:
    try:
        status = path.stat()
    except OSError as error:
        raise ExternalDataError(
            f"{model_file}: the weights of '{tensor}' are in '{path.name}', which cannot be read ({error.strerror}).",
            f"Put it beside the model: {path}",
        ) from None
    if not path.is_file():
        raise ExternalDataError(f"{model_file}: the weights of '{tensor}' are in '{path.name}', which is not a file.")
    if status.st_nlink > 1:
        raise ExternalDataError(
            f"{model_file}: the external data '{path.name}' has several hard links, which runtimes refuse.",
            f"Replace it with a copy of itself: cp {path.name} copy && mv copy {path.name}",
        )
    return status.st_size


def _check_range(tensor: onnx.TensorProto, entries: dict[str, str], size: int, path: Path, model_file: Path) -> None:
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries["length"]) if "length" in entries else None
    except ValueError:
        raise ExternalDataError(
            f"{model_file}: tensor '{tensor.name}' has an offset or a length that is not a number."
        ) from None
    try:
        bits = ir.DataType(tensor.data_type).bitwidth
    except (ValueError, TypeError):
        raise ExternalDataError(f"{model_file}: tensor '{tensor.name}' has a dtype that cannot be external.") from None
    needed = math.ceil(math.prod(tensor.dims) * bits / 8)
    if offset < 0 or needed < 0 or (length is not None and length != needed):
        raise ExternalDataError(
            f"{model_file}: tensor '{tensor.name}' needs {needed:,} bytes for its shape {list(tensor.dims)}, "
            f"and claims {entries.get('length', '?')} at offset {offset} of '{path.name}'."
        )
    if offset + needed > size:
        raise ExternalDataError(
            f"{model_file}: '{path.name}' is too short: tensor '{tensor.name}' needs bytes {offset:,} to "
            f"{offset + needed:,}, and the file has {size:,}.",
            "The download or the copy was cut off; fetch the file again.",
        )
