"""ONNX's own checker and shape inference: native code on untrusted input, so they run in a child process."""

from __future__ import annotations

import contextlib
import copy
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir

from onnxsmith.config import LimitsConfig
from onnxsmith.errors import ChildCrashError, InvalidModelError
from onnxsmith.model.external_data import embed
from onnxsmith.model.messages import all_graphs, dense_tensors, sparse_parts
from onnxsmith.model.model import Model
from onnxsmith.model.model_file import parse
from onnxsmith.model.specs import Dim, clean_dim, dtype_name, format_shape, shape_dims
from onnxsmith.process import run_supervised
from onnxsmith.records import Progress, no_progress

_SMALL_TENSOR_ELEMENTS = 1024
_LARGEST_ELEMENT = 16
_WEIGHTS = "weights"
_TENSOR_TYPES = ("tensor_type", "sparse_tensor_type")
_ORT_DOMAIN = "com.microsoft"

RawDims = tuple[Dim, ...]
RawTypes = dict[str, tuple[int, RawDims | None]]


@dataclass(frozen=True)
class NativeAnalysis:
    """What the checker and shape inference said.

    Attributes:
        shapes: For each graph of `Model.graphs()`, in its order: the dims of each tensor whose rank is known, inferred
            ones first and declared ones where nothing was inferred.
        dtypes: The same for element types, by NumPy's names.
        declared: Like `shapes`, before inference.
        conflicts: Tensors whose declared shape contradicts the inferred one, in words.
        inference_error: Why shape inference gave up, or None.
    """

    shapes: list[dict[str, RawDims]]
    dtypes: list[dict[str, str]]
    declared: list[dict[str, RawDims]]
    conflicts: tuple[str, ...] = ()
    inference_error: str | None = None


def analyse_native(model: Model, limits: LimitsConfig | None = None) -> NativeAnalysis:
    """Checks a model with `onnx.checker.check_model` and infers its shapes with `onnx.shape_inference`.

    Raises:
        InvalidModelError: The checker refuses it; the message has the checker's reason.
        ChildCrashError: ONNX's checker died of it.
        ChildTimeoutError: It took too long.
        ChildMemoryError: It took too much memory.
    """
    source = model.path if model.path is not None else model.frame().SerializeToString()
    limits = limits or LimitsConfig()
    what = f"checking {model.name}"
    try:
        answer = run_supervised(f"{__name__}:_check_and_infer", source, limits=limits, what=what).value
    except ChildCrashError as error:
        # Shape inference dies of some valid models; the checker says whether this is one.
        answer = run_supervised(f"{__name__}:_check_and_infer", source, infer=False, limits=limits, what=what).value
        answer = (answer[0], error.message, [])
    problem, inference_error, inferred = answer
    if problem is not None:
        raise InvalidModelError(f"{model.name}: not a valid model: {problem}")
    return _merge(model, inferred, inference_error)


def check_native(model: Model, limits: LimitsConfig | None = None) -> None:
    """Checks a model with `onnx.checker.check_model`; its weights are not looked at.

    Raises:
        InvalidModelError: The checker refuses it; the message has the checker's reason.
        ChildCrashError: ONNX's checker died of it.
        ChildTimeoutError: It took too long.
        ChildMemoryError: It took too much memory.
    """
    source = model.path if model.path is not None else model.frame().SerializeToString()
    what = f"checking {model.name}"
    function = f"{__name__}:_check_and_infer"
    problem = run_supervised(function, source, infer=False, limits=limits or LimitsConfig(), what=what).value[0]
    if problem is not None:
        raise InvalidModelError(f"{model.name}: not a valid model: {problem}")


def _merge(model: Model, inferred: list[RawTypes], inference_error: str | None) -> NativeAnalysis:
    shapes, dtypes, declared, conflicts = [], [], [], []
    for index, (_, graph) in enumerate(model.graphs()):
        graph_declared: dict[str, RawDims] = {}
        graph_dtypes: dict[str, str] = {}
        for value in _values(graph):
            if value.name:
                dims = shape_dims(value.const_value.shape if value.const_value is not None else value.shape)
                if dims is not None:
                    graph_declared[value.name] = dims
                if value.dtype is not None:
                    graph_dtypes[value.name] = dtype_name(value.dtype)
        graph_shapes = dict(graph_declared)
        for name, (elem_type, inferred_dims) in (inferred[index] if index < len(inferred) else {}).items():
            graph_dtypes[name] = dtype_name(elem_type)
            if inferred_dims is not None:
                before = graph_declared.get(name)
                if before is not None and _contradict(before, inferred_dims):
                    conflicts.append(
                        f"'{name}' is declared {format_shape(before)} and inferred {format_shape(inferred_dims)}"
                    )
                graph_shapes[name] = _combine(before, inferred_dims)
        shapes.append(graph_shapes)
        dtypes.append(graph_dtypes)
        declared.append(graph_declared)
    return NativeAnalysis(shapes, dtypes, declared, tuple(conflicts), inference_error)


def _values(graph: ir.Graph) -> list[ir.Value]:
    return [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]


def _contradict(declared: RawDims, inferred: RawDims) -> bool:
    if len(declared) != len(inferred):
        return True
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(declared, inferred, strict=True))


def _combine(declared: RawDims | None, inferred: RawDims) -> RawDims:
    """What inference found, and a dimension's declared size or name where it found none."""
    if declared is None or _contradict(declared, inferred):
        return inferred
    return tuple(
        dim if isinstance(dim, int) or known is None else known for known, dim in zip(declared, inferred, strict=True)
    )


def _check_and_infer(
    source: Path | bytes, *, infer: bool = True, progress: Progress = no_progress
) -> tuple[str | None, str | None, list[RawTypes]]:
    """Runs in the child. Returns the checker's complaint, inference's complaint, and the types of each graph."""
    if isinstance(source, bytes):
        proto = onnx.ModelProto.FromString(source)
    else:
        proto, _ = parse(source, _SMALL_TENSOR_ELEMENTS * _LARGEST_ELEMENT)
    _leave_weights_out(proto, source.absolute().parent if isinstance(source, Path) else None)
    _hide_ort_operators(proto)
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            # The checker wants to see a file behind each reference, and looks for it here.
            Path(_WEIGHTS).touch()
            onnx.checker.check_model(_with_every_shape(proto))
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        return _first_lines(str(error)), None, []
    if not infer:
        return None, None, []
    try:
        inferred = _infer(proto)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        return None, _first_lines(str(error)), []
    tables: list[RawTypes] = []
    _collect(inferred.graph, tables)
    return None, None, tables


def _with_every_shape(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which no input or output lacks a shape, which runtimes do not ask for and the checker does."""
    checked = onnx.ModelProto()
    checked.CopyFrom(proto)
    for graph in all_graphs(checked):
        for info in (*graph.input, *graph.output):
            kind = info.type.WhichOneof("value")
            if kind in _TENSOR_TYPES:
                getattr(info.type, kind).shape.SetInParent()
    return checked


def _leave_weights_out(proto: onnx.ModelProto, folder: Path | None) -> None:
    """Makes large tensors references to nothing, and takes in small ones, which shape inference may need.

    Neither the checker nor shape inference looks into weights, whose sizes have been checked, and both copy the model.
    """
    for tensor in sparse_parts(proto):
        if folder is not None and tensor.data_location == onnx.TensorProto.EXTERNAL:
            embed(tensor, folder)
    for tensor in dense_tensors(proto):
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        small = math.prod(tensor.dims) <= _SMALL_TENSOR_ELEMENTS
        if external and small and folder is not None:
            embed(tensor, folder)
        elif external or (not small and tensor.HasField("raw_data")):
            tensor.ClearField("raw_data")
            tensor.ClearField("external_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value=_WEIGHTS)


def _infer(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Infers shapes from the inputs alone, since inference believes what is declared, and declarations can be wrong.

    What cannot be inferred so, behind an operator without a schema, is taken from the declarations.
    """
    blind = onnx.ModelProto()
    blind.CopyFrom(proto)
    declared = [_forget_shapes(graph) for graph in all_graphs(blind)]
    inferred = onnx.shape_inference.infer_shapes(blind, data_prop=True)
    helped = False
    for graph, known, result in zip(all_graphs(blind), declared, all_graphs(inferred), strict=True):
        found = {info.name for info in (*result.value_info, *result.output) if _has_shape(info.type)}
        lacking = {info.name: info for info in known if info.name not in found}
        for info in (*graph.value_info, *graph.output):
            if info.name in lacking:
                info.CopyFrom(lacking[info.name])
                helped = True
    return onnx.shape_inference.infer_shapes(blind, data_prop=True) if helped else inferred


def _forget_shapes(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Takes the declared shapes out of a graph, and returns what was declared."""
    declared = []
    for info in (*graph.value_info, *graph.output):
        if _has_shape(info.type):
            declared.append(copy.deepcopy(info))
            getattr(info.type, info.type.WhichOneof("value")).ClearField("shape")
    return declared


def _has_shape(proto: onnx.TypeProto) -> bool:
    kind = proto.WhichOneof("value")
    return kind in _TENSOR_TYPES and bool(getattr(proto, kind).HasField("shape"))


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


def _collect(graph: onnx.GraphProto, tables: list[RawTypes]) -> None:
    """One table a graph, in the order of `Model.graphs()`."""
    table: RawTypes = {}
    tables.append(table)
    for info in (*graph.input, *graph.output, *graph.value_info):
        kind = info.type.WhichOneof("value")
        if kind in _TENSOR_TYPES:
            tensor = getattr(info.type, kind)
            dims = None
            if tensor.HasField("shape"):
                dims = tuple(
                    clean_dim(dim.dim_value if dim.HasField("dim_value") else dim.dim_param) for dim in tensor.shape.dim
                )
            table[info.name] = (tensor.elem_type, dims)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _collect(attribute.g, tables)
            for subgraph in attribute.graphs:
                _collect(subgraph, tables)


def _first_lines(text: str, count: int = 3) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return " ".join(lines[:count]) or "no reason given"
