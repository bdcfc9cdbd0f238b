"""ONNX's own checker and shape inference: native code on untrusted input, so they run in a child process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir

from onnxsmith.config import LimitsConfig
from onnxsmith.errors import InvalidModelError
from onnxsmith.model.external_data import all_tensors
from onnxsmith.model.model import Model
from onnxsmith.model.specs import Dim, clean_dim, dtype_name, shape_dims
from onnxsmith.process import run_supervised
from onnxsmith.records import Progress, no_progress

_BIG_TENSOR_BYTES = 1024
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
        ChildCrashError: ONNX's native code died of it.
        ChildTimeoutError: It took too long.
        ChildMemoryError: It took too much memory.
    """
    source = model.path if model.path is not None else model.to_proto().SerializeToString()
    answer = run_supervised(
        "onnxsmith.model.native:_check_and_infer",
        source,
        limits=limits or LimitsConfig(),
        what=f"checking {model.name}",
    ).value
    problem, inference_error, inferred = answer
    if problem is not None:
        raise InvalidModelError(f"{model.name}: not a valid model: {problem}")
    return _merge(model, inferred, inference_error)


def _merge(model: Model, inferred: list[RawTypes], inference_error: str | None) -> NativeAnalysis:
    shapes, dtypes, declared, conflicts = [], [], [], []
    empty: list[RawTypes] = [{}] * 1
    graphs = list(model.graphs())
    for index, (_, graph) in enumerate(graphs):
        said = inferred[index] if index < len(inferred) else empty[0]
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
        for name, (elem_type, inferred_dims) in said.items():
            graph_dtypes[name] = dtype_name(elem_type)
            if inferred_dims is not None:
                before = graph_declared.get(name)
                if before is not None and _contradict(before, inferred_dims):
                    conflicts.append(f"'{name}' is declared {list(before)} and inferred {list(inferred_dims)}")
                graph_shapes[name] = inferred_dims
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


def _check_and_infer(
    source: Path | bytes, *, progress: Progress = no_progress
) -> tuple[str | None, str | None, list[RawTypes]]:
    """Runs in the child. Returns the checker's complaint, inference's complaint, and the types of each graph."""
    if isinstance(source, bytes):
        proto = onnx.ModelProto.FromString(source)
    else:
        proto = onnx.load(str(source), load_external_data=False)
    hidden = _hide_ort_operators(proto)
    try:
        # The checker looks for external files only where it is given a path.
        onnx.checker.check_model(str(source) if isinstance(source, Path) and not hidden else proto)
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        return _first_lines(str(error)), None, []
    _drop_big_tensors(proto)
    try:
        proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        return None, _first_lines(str(error)), []
    tables: list[RawTypes] = []
    _collect(proto.graph, tables)
    return None, None, tables


def _hide_ort_operators(proto: onnx.ModelProto) -> bool:
    """Moves operators that ONNX Runtime alone defines in the default domain to its own, where the checker lets them be.

    Its optimiser writes such nodes (LayerNormalization below opset 17, SimplifiedLayerNormalization).
    """
    version = next((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 1)
    if proto.functions or not _hide_in(proto.graph, version):
        return False
    if all(entry.domain != _ORT_DOMAIN for entry in proto.opset_import):
        proto.opset_import.add(domain=_ORT_DOMAIN, version=1)
    return True


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


def _drop_big_tensors(proto: onnx.ModelProto) -> None:
    """Drops the data of big tensors: shape inference needs their shapes only, and it copies the model."""
    for tensor in all_tensors(proto):
        if len(tensor.raw_data) > _BIG_TENSOR_BYTES:
            tensor.ClearField("raw_data")
        for name in ("float_data", "double_data", "string_data"):
            if len(getattr(tensor, name)) > _BIG_TENSOR_BYTES:
                tensor.ClearField(name)


def _collect(graph: onnx.GraphProto, tables: list[RawTypes]) -> None:
    """One table a graph, in the order of `Model.graphs()`."""
    table: RawTypes = {}
    tables.append(table)
    for info in (*graph.input, *graph.output, *graph.value_info):
        kind = info.type.WhichOneof("value")
        if kind in ("tensor_type", "sparse_tensor_type"):
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
