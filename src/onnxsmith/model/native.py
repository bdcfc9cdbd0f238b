"""ONNX's own checker and shape inference: native code on untrusted input, so they run in a child process."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir

from onnxsmith.config import LimitsConfig
from onnxsmith.errors import ChildCrashError, InvalidModelError
from onnxsmith.model.checking import Checking
from onnxsmith.model.messages import all_graphs
from onnxsmith.model.model import Model
from onnxsmith.model.native_check import TENSOR_TYPES, complaint, first_lines, read
from onnxsmith.model.specs import Dim, clean_dim, dtype_name, format_shape, shape_dims
from onnxsmith.process import run_supervised
from onnxsmith.records import Progress, no_progress

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
        check_native(model, limits)
        answer = None, error.message, []
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
    start_check(model, limits).result()


def start_check(model: Model, limits: LimitsConfig | None = None) -> Checking:
    """Starts what `check_native` does."""
    source = model.path if model.path is not None else model.frame().SerializeToString()
    return Checking(source, model.name, limits or LimitsConfig())


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
    source: Path | bytes, *, progress: Progress = no_progress
) -> tuple[str | None, str | None, list[RawTypes]]:
    """Runs in the child. Returns the checker's complaint, inference's complaint, and the types of each graph."""
    proto = read(source)
    problem = complaint(proto)
    if problem is not None:
        return problem, None, []
    try:
        inferred = _infer(proto)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        return None, first_lines(str(error)), []
    tables: list[RawTypes] = []
    _collect(inferred.graph, tables)
    return None, None, tables


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
    return kind in TENSOR_TYPES and bool(getattr(proto, kind).HasField("shape"))


def _collect(graph: onnx.GraphProto, tables: list[RawTypes]) -> None:
    """One table a graph, in the order of `Model.graphs()`."""
    table: RawTypes = {}
    tables.append(table)
    for info in (*graph.input, *graph.output, *graph.value_info):
        kind = info.type.WhichOneof("value")
        if kind in TENSOR_TYPES:
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
