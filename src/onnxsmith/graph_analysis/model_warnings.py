"""What a user should know of a model before deploying it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import onnx
import onnx_ir as ir

from onnxsmith.extras import installed_version
from onnxsmith.graph_analysis.matching import default_domain, scalar
from onnxsmith.graph_analysis.node_counter import operator_name
from onnxsmith.graph_analysis.patterns import node_label
from onnxsmith.model import Model, NativeAnalysis

OLDEST_OPSET = 11
"""Below it, models cannot use Resize and Range as exporters write them."""

_FIRST_IR_WITH_CONSTANTS = 4
_MOST_NAMES = 5
_RUNTIME_DOMAINS = ("com.microsoft", "com.ms.internal")


def find_warnings(model: Model, analysis: NativeAnalysis) -> tuple[str, ...]:
    """The warnings about a model, a sentence each."""
    return (
        *_version_warnings(model),
        *_interface_warnings(model),
        *_weight_warnings(model, analysis),
        *_operator_warnings(model),
        *_shape_warnings(analysis),
    )


def custom_operators(model: Model) -> tuple[str, ...]:
    """The operators that neither ONNX nor a function of the model defines: "com.microsoft::FusedConv"."""
    standard = {schema.domain for schema in onnx.defs.get_all_schemas()}
    nodes = [node for node in model.nodes() if not default_domain(node) and node.domain not in standard]
    return tuple(sorted({operator_name(node) for node in nodes if node.op_identifier() not in model.ir.functions}))


def default_opset(model: Model) -> int:
    """The version of the default domain, under either of its names; 0 where it is not imported."""
    imports = model.ir.opset_imports
    return imports.get("", imports.get("ai.onnx", 0))


def _version_warnings(model: Model) -> Iterator[str]:
    opset = default_opset(model)
    if 0 < opset < OLDEST_OPSET:
        yield f"opset {opset} is older than {OLDEST_OPSET}, which runtimes support less and less: export it again."
    runtime = f"ONNX Runtime {installed_version('onnxruntime')}"
    if not _runtime_loads(ir_version=model.ir.ir_version):
        yield f"IR version {model.ir.ir_version} is newer than {runtime} knows."
    for domain, version in model.ir.opset_imports.items():
        if not _runtime_loads(opset=(domain, version)):
            yield f"opset {version} of {domain or 'ai.onnx'} is newer than {runtime} knows."


def _runtime_loads(*, ir_version: int = 8, opset: tuple[str, int] = ("", 17)) -> bool:
    """Whether ONNX Runtime loads an empty model of these versions: it has no list to ask for."""
    import onnxruntime

    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    probe = onnx.helper.make_model(
        onnx.helper.make_graph([], "probe", [value], [value]),
        ir_version=ir_version,
        opset_imports=[onnx.helper.make_opsetid(*opset)],
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        onnxruntime.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001 - the runtime's exceptions have no common type
        return False
    return True


def _interface_warnings(model: Model) -> Iterator[str]:
    graph = model.ir.graph
    overridable = [value.name or "" for value in graph.inputs if value.is_initializer()]
    if overridable and model.ir.ir_version < _FIRST_IR_WITH_CONSTANTS:
        yield (
            f"IR version {model.ir.ir_version} makes every initializer an input, which a caller may override: "
            "optimisers fold none of them."
        )
    elif overridable:
        yield (
            f"{_count(overridable, 'initializer', 'initializers')} may be overridden by a caller, which keeps "
            f"optimisers from folding: {_some(overridable)}."
        )
    unused = [value.name or "" for value in graph.inputs if not value.is_initializer() and _is_unused(value)]
    if unused:
        yield f"{_count(unused, 'input is', 'inputs are')} not used: {_some(unused)}."


def _weight_warnings(model: Model, analysis: NativeAnalysis) -> Iterator[str]:
    unused = [value for _, graph in model.graphs() for value in graph.initializers.values() if _is_unused(value)]
    if unused:
        size = sum(value.const_value.nbytes for value in unused if value.const_value is not None)
        names = [value.name or "" for value in unused]
        yield f"{_count(unused, 'initializer is', 'initializers are')} not used, {size:,} bytes: {_some(names)}."
    doubles = [name for table in analysis.dtypes for name, dtype in table.items() if dtype == "float64"]
    if doubles:
        yield (
            f"{_count(doubles, 'tensor is', 'tensors are')} float64, which is slow, and which most accelerators lack: "
            f"{_some(doubles)}."
        )


def _operator_warnings(model: Model) -> Iterator[str]:
    training = [
        node_label(node, index)
        for _, graph in model.graphs()
        for index, node in enumerate(graph)
        if default_domain(node) and _trains(node, default_opset(model))
    ]
    if training:
        yield (
            f"{_count(training, 'node is', 'nodes are')} in training mode, so outputs are not those of inference: "
            f"{_some(training)}. Export the model in inference mode (`model.eval()` in PyTorch)."
        )
    foreign = [name for name in custom_operators(model) if not name.startswith(_RUNTIME_DOMAINS)]
    if foreign:
        yield (
            f"{_count(foreign, 'operator is', 'operators are')} defined neither by ONNX nor by ONNX Runtime: "
            f"{_some(foreign)}. A session needs the library that defines what is missing."
        )


def _trains(node: ir.Node, opset: int) -> bool:
    """Whether a Dropout or a BatchNormalization is, or may be, in training mode."""
    if node.op_type not in ("Dropout", "BatchNormalization"):
        return False
    if opset < 7:
        return node.attributes.get_int("is_test", 0) == 0
    if node.op_type == "Dropout":
        flag = node.inputs[2] if len(node.inputs) > 2 else None
        return flag is not None and scalar(flag) != 0
    if opset >= 14:
        return node.attributes.get_int("training_mode", 0) != 0
    return len([value for value in node.outputs if value.name]) > 1


def _shape_warnings(analysis: NativeAnalysis) -> Iterator[str]:
    if analysis.inference_error is not None:
        yield f"shape inference gave up: {analysis.inference_error}"
    for conflict in analysis.conflicts[:_MOST_NAMES]:
        yield f"{conflict}: the declared shape is wrong, or the operator does not do what ONNX says."
    if len(analysis.conflicts) > _MOST_NAMES:
        yield f"{len(analysis.conflicts) - _MOST_NAMES} more tensors are declared with another shape than is inferred."


def _is_unused(value: ir.Value) -> bool:
    return not value.uses() and not value.is_graph_output()


def _count(items: Sequence[object] | dict[str, None], one: str, several: str) -> str:
    return f"{len(items):,} {one if len(items) == 1 else several}"


def _some(names: Iterable[str]) -> str:
    names = list(names)
    rest = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(f"'{name}'" for name in names[:_MOST_NAMES]) + rest
