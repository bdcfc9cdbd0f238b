"""What onnx-ir has no place for, carried through it: map and opaque types, sparse tensors, training information.

`pack` takes it out of a message before onnx-ir reads that, and `unpack` puts it back into the message that onnx-ir
writes. In between it lies in the IR itself (in the main graph's `meta`, or in a tensor), so it lives through clones and
passes, and goes when what it belongs to goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxsmith.model.external_data import embed
from onnxsmith.model.messages import all_tensors, contents, value_infos

_KEY = "onnxsmith.carried"
_SPARSE = "onnxsmith: a sparse tensor"
_ATTRIBUTE = "onnxsmith: an attribute"
_SPARSE_TYPES = (onnx.AttributeProto.SPARSE_TENSOR, onnx.AttributeProto.SPARSE_TENSORS)


@dataclass(frozen=True)
class Carried:
    """What hangs on a model's main graph.

    Attributes:
        types: By the name of an input or output, the types that onnx-ir lacks.
        training: The training information, serialised.
    """

    types: dict[str, bytes] = field(default_factory=dict)
    training: tuple[bytes, ...] = ()


class SparseTensor(ir.TensorProtoTensor):
    """A sparse initializer: dense to whoever reads its values, sparse again in the file."""

    __slots__ = ()

    def numpy(self) -> np.ndarray[Any, Any]:
        """The dense values."""
        sparse = onnx.SparseTensorProto.FromString(self.raw.raw_data)
        indices = ir.from_proto(sparse.indices).numpy()
        dense = np.zeros(tuple(self.raw.dims), self.dtype.numpy())
        # One index counts through the whole tensor, else there is one for each axis.
        where = np.unravel_index(indices, dense.shape) if indices.ndim == 1 else tuple(indices.T)
        dense[where] = ir.from_proto(sparse.values).numpy()
        return dense

    def tobytes(self) -> bytes:
        """The dense values, as ONNX lays them out."""
        return ir.Tensor(self.numpy(), dtype=self.dtype).tobytes()


def pack(model: onnx.ModelProto, folder: Path | None) -> Carried:
    """Takes out of a message what onnx-ir has no place for.

    Args:
        model: The message; it is changed.
        folder: Where its external data lies; what is packed is taken in from there.
    """
    training = onnx.ModelProto(training_info=model.training_info)
    _embed_all(all_tensors(training), folder)
    model.ClearField("training_info")
    graphs, attributes = contents(model)
    types = {}
    for info in value_infos(model, graphs):
        if _is_foreign(info.type):
            types[info.name] = info.type.SerializeToString()
            info.ClearField("type")
    for graph in graphs:
        for sparse in graph.sparse_initializer:
            _embed_all((sparse.values, sparse.indices), folder)
            graph.initializer.add(
                name=sparse.values.name,
                data_type=sparse.values.data_type,
                dims=sparse.dims,
                doc_string=_SPARSE,
                raw_data=sparse.SerializeToString(),
            )
        graph.ClearField("sparse_initializer")
    for attribute in attributes:
        if _is_foreign_attribute(attribute):
            _embed_all((attribute.sparse_tensor.values, attribute.sparse_tensor.indices), folder)
            for sparse in attribute.sparse_tensors:
                _embed_all((sparse.values, sparse.indices), folder)
            stored = attribute.SerializeToString()
            attribute.CopyFrom(
                onnx.AttributeProto(
                    name=attribute.name,
                    type=onnx.AttributeProto.TENSOR,
                    t=onnx.TensorProto(
                        data_type=onnx.TensorProto.UINT8, dims=[len(stored)], doc_string=_ATTRIBUTE, raw_data=stored
                    ),
                )
            )
    return Carried(types, tuple(info.SerializeToString() for info in training.training_info))


def is_packed(tensor: ir.TensorProtocol) -> bool:
    """Whether a tensor is in truth something that onnx-ir has no place for, and must go through `unpack`."""
    return tensor.doc_string in (_SPARSE, _ATTRIBUTE)


def attach(model: ir.Model, carried: Carried) -> None:
    """Hangs on a model what `pack` took out of its message."""
    if carried.types or carried.training:
        model.graph.meta[_KEY] = carried
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.TensorProtoTensor) and tensor.doc_string == _SPARSE:
                value.const_value = SparseTensor(tensor.raw)


def carried_types(model: ir.Model) -> dict[str, bytes]:
    """By the value's name, the types that onnx-ir lacks: serialised `TypeProto`s."""
    return _carried(model).types


def unpack(message: onnx.ModelProto, model: ir.Model) -> None:
    """Puts back into a message that onnx-ir wrote what was packed."""
    carried = _carried(model)
    graphs, attributes = contents(message)
    for info in value_infos(message, graphs) if carried.types else ():
        if info.name in carried.types and not info.HasField("type"):
            info.type.ParseFromString(carried.types[info.name])
    for graph in graphs:
        kept = [tensor for tensor in graph.initializer if tensor.doc_string != _SPARSE]
        if len(kept) < len(graph.initializer):
            for tensor in graph.initializer:
                if tensor.doc_string == _SPARSE:
                    sparse = graph.sparse_initializer.add()
                    sparse.ParseFromString(tensor.raw_data)
                    sparse.values.name = tensor.name
            del graph.initializer[:]
            graph.initializer.extend(kept)
    for attribute in attributes:
        if attribute.HasField("t") and attribute.t.doc_string == _ATTRIBUTE:
            name = attribute.name
            attribute.ParseFromString(attribute.t.raw_data)
            attribute.name = name
    for function in message.functions:
        function.domain = function.domain  # onnx-ir leaves an empty one out, and the checker then misses it
    for stored in carried.training:
        message.training_info.add().ParseFromString(stored)


def _carried(model: ir.Model) -> Carried:
    carried = model.graph.meta.get(_KEY)
    return carried if isinstance(carried, Carried) else Carried()


def _is_foreign(proto: onnx.TypeProto) -> bool:
    while proto.HasField("sequence_type") or proto.HasField("optional_type"):
        proto = (proto.sequence_type if proto.HasField("sequence_type") else proto.optional_type).elem_type
    return proto.HasField("map_type") or proto.HasField("opaque_type")


def _is_foreign_attribute(attribute: onnx.AttributeProto) -> bool:
    if attribute.ref_attr_name:
        return False
    if attribute.type == onnx.AttributeProto.STRINGS:
        return not all(map(_is_utf8, attribute.strings))
    return attribute.type in _SPARSE_TYPES or _is_foreign(attribute.tp) or any(map(_is_foreign, attribute.type_protos))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _embed_all(tensors: Iterable[onnx.TensorProto], folder: Path | None) -> None:
    if folder is not None:
        for tensor in tensors:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                embed(tensor, folder)
