"""What a model says of an input or an output: name, dtype, shape."""

from __future__ import annotations

from typing import Any, Literal

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir

from onnxsmith.records import Record

Dim = int | str | None
"""A dimension: its size, its name where it is dynamic, or None where it is neither known nor named."""

Kind = Literal["tensor", "sparse_tensor", "sequence", "optional", "map", "unknown"]


class TensorSpec(Record):
    """An input or output of a model.

    Attributes:
        name: Its name.
        kind: What sort of value it is.
        dtype: NumPy's name of the element type ("float32", "bfloat16"), "string", or "map(int64, float32)".
        shape: Its dimensions, or None where the rank is unknown.
    """

    name: str
    kind: Kind
    dtype: str
    shape: tuple[Dim, ...] | None

    def __str__(self) -> str:
        text = f"{self.dtype}{format_shape(self.shape)}"
        return text if self.kind == "tensor" else f"{self.kind}({text})"

    @property
    def dynamic_dims(self) -> tuple[tuple[int, Dim], ...]:
        """The axis and name of each dimension that is not fixed."""
        return tuple((axis, dim) for axis, dim in enumerate(self.shape or ()) if not isinstance(dim, int))


def format_shape(shape: tuple[Dim, ...] | None) -> str:
    """`[batch, 3, 224, 224]`, with `?` for what is unknown."""
    if shape is None:
        return "[?…]"
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


def dtype_name(dtype: ir.DataType | int | None) -> str:
    """NumPy's name of an ONNX element type; "string" and "undefined" for those that NumPy lacks."""
    if dtype is None or dtype == ir.DataType.UNDEFINED:
        return "undefined"
    dtype = ir.DataType(dtype)
    if dtype == ir.DataType.STRING:
        return "string"
    return np.dtype(dtype.numpy()).name


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a spec's element type; objects for strings.

    Raises:
        TypeError: There is none.
    """
    return np.dtype(object if name == "string" else getattr(ml_dtypes, name, name))


def shape_dims(shape: ir.ShapeProtocol | None) -> tuple[Dim, ...] | None:
    """The dimensions of an onnx-ir shape; a negative one, which some exporters write, is an unknown one."""
    if shape is None:
        return None
    return tuple(clean_dim(dim if isinstance(dim, int) else dim.value) for dim in shape)


def clean_dim(dim: Dim) -> Dim:
    """None for a negative size, and for a name that says nothing."""
    return None if dim in ("", "?", "-1", "None") or (isinstance(dim, int) and dim < 0) else dim


def spec_of(value: ir.Value, opaque: onnx.TypeProto | None = None) -> TensorSpec:
    """The spec of a graph's input or output.

    Args:
        value: The input or output.
        opaque: Its type where onnx-ir has none for it (maps).
    """
    name = value.name or ""
    if opaque is not None:
        return _opaque_spec(name, opaque)
    kind: Kind
    match value.type:
        case ir.TensorType():
            kind = "tensor"
        case ir.SparseTensorType():
            kind = "sparse_tensor"
        case ir.SequenceType():
            kind = "sequence"
        case ir.OptionalType():
            kind = "optional"
        case _:
            kind = "unknown"
    return TensorSpec(name=name, kind=kind, dtype=dtype_name(value.dtype), shape=shape_dims(value.shape))


def _opaque_spec(name: str, proto: onnx.TypeProto) -> TensorSpec:
    if proto.HasField("sequence_type"):
        return TensorSpec(name=name, kind="sequence", dtype=_type_text(proto.sequence_type.elem_type), shape=None)
    return TensorSpec(name=name, kind="map", dtype=_type_text(proto), shape=None)


def _type_text(proto: onnx.TypeProto) -> str:
    if proto.HasField("map_type"):
        return f"map({dtype_name(proto.map_type.key_type)}, {_type_text(proto.map_type.value_type)})"
    return dtype_name(proto.tensor_type.elem_type)
