"""Operators without a rule here: ONNX's own inference, on the single node."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx.checker
import onnx.shape_inference
import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic.call import NOTHING, Call, Info, Unknown
from onnxsmith.graph_analysis.symbolic.dims import Dim, Expr, fresh_symbol


def infer_with_onnx(call: Call, imports: Mapping[str, int], ir_version: int, domain: str = "") -> list[Info]:
    """What ONNX says of the outputs of a node.

    Raises:
        Unknown: ONNX has no such operator, or an input's type is not known.
    """
    node = call.node
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        raise Unknown
    try:
        schema = onnx.defs.get_schema(node.op_type, call.opset, domain)
    except onnx.defs.SchemaError as error:
        raise Unknown from error
    proto = onnx.NodeProto(op_type=node.op_type, domain=domain)
    proto.attribute.extend(ir.serde.serialize_attribute(attribute) for attribute in node.attributes.values())
    dims: dict[str, Expr] = {}
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for index, info in enumerate(call.inputs):
        name = "" if info is None else f"input_{index}"
        proto.input.append(name)
        if info is not None:
            types[name] = _type(info, dims)
            tensor = _tensor(info)
            if tensor is not None:
                data[name] = tensor
    proto.output.extend(f"output_{index}" for index in range(len(node.outputs)))
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in imports.items()]
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema, proto, types, data, opset_imports=opsets, ir_version=ir_version
        )
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        raise Unknown from error
    return [_info(found.get(name), dims) for name in proto.output]


def _type(info: Info, dims: dict[str, Expr]) -> onnx.TypeProto:
    if info.other is not None:
        return ir.serde.serialize_type(info.other)
    if info.dtype is None:
        raise Unknown
    shape: list[int | str] | None = None
    if info.shape is not None:
        shape = []
        for dim in info.shape:
            if isinstance(dim, int):
                shape.append(dim)
            else:
                shape.append(f"d{len(dims)}")
                dims[f"d{len(dims)}"] = dim
    return onnx.helper.make_tensor_type_proto(int(info.dtype), shape)


def _tensor(info: Info) -> onnx.TensorProto | None:
    if info.contents is None or info.dtype is None or not all(isinstance(item, int | float) for item in info.contents):
        return None
    shape = [dim for dim in info.shape or () if isinstance(dim, int)]
    return onnx.numpy_helper.from_array(np.array(info.contents, dtype=info.dtype.numpy()).reshape(shape))


def _info(found: onnx.TypeProto | None, dims: Mapping[str, Expr]) -> Info:
    if found is None:
        return NOTHING
    if not found.HasField("tensor_type"):
        return Info(other=ir.serde.deserialize_type_proto_for_type(found))
    tensor = found.tensor_type
    dtype = ir.DataType(tensor.elem_type) if tensor.elem_type else None
    if not tensor.HasField("shape"):
        return Info(dtype)
    shape: list[Dim] = []
    for dim in tensor.shape.dim:
        if dim.HasField("dim_value"):
            if dim.dim_value < 0:
                return Info(dtype)
            shape.append(dim.dim_value)
        else:
            shape.append(dims.get(dim.dim_param) or fresh_symbol())
    return Info(dtype, tuple(shape))
