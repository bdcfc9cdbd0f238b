"""Shapes: of every tensor, before and after shape inference, and a line a node."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

import onnx_ir as ir

from onnxsmith.config import LimitsConfig
from onnxsmith.graph_analysis.node_counter import operator_name
from onnxsmith.model import Dim, Model, NativeAnalysis, TensorSpec, analyse_native
from onnxsmith.model.dims import dim_key
from onnxsmith.model.specs import format_shape
from onnxsmith.records import Record

Dims = tuple[Dim, ...]

_MADE_UP = re.compile(r"unk__\d+")
"""What ONNX's shape inference calls a dimension that it cannot compute."""


class DynamicDim(Record):
    """A dynamic dimension.

    Attributes:
        name: Its name, or `input.axis` where an input's dimension has none.
        places: Where it occurs: "input[0]".
    """

    name: str
    places: tuple[str, ...]


class ShapeReport(Record):
    """The shapes of a model.

    A tensor of a subgraph goes by the graph's place and its own name, "if_1/then_branch:y". Its shape is known when
    each dimension is a size or has a name of the model's, and partly known when the rank is known. `total` and what
    follows it are about inputs and the outputs of nodes; the shapes of initializers are always known.

    Attributes:
        shapes: The dims of each tensor whose rank is known, initializers included.
        lines: A line for each node, a subgraph's nodes indented under their parent:
            `[0] Conv in=[x:[batch, 1, 8, 8], w:[32, 1, 3, 3]] → out=[y:[batch, 32, 8, 8]]`.
        dynamic_dims: The model's dynamic dimensions in order of appearance; those that inference made up
            (`unk__12`) are left out.
        total: The number of tensors.
        known_before: How many have a known shape in the file.
        known_after: How many have one after inference.
        filled: Those of which inference said more than the file does.
        partly_known: Those whose shape is partly known after inference.
        unknown: Those of which even the rank is unknown.
    """

    shapes: dict[str, Dims]
    lines: tuple[str, ...]
    dynamic_dims: tuple[DynamicDim, ...]
    total: int
    known_before: int
    known_after: int
    filled: tuple[str, ...]
    partly_known: tuple[str, ...]
    unknown: tuple[str, ...]


class ShapeAnalyzer:
    """Finds the shape of every tensor in a model.

    Args:
        model: The model.
        limits: On the child process that checks the model and infers its shapes.
        analysis: What `analyse_native` said of the model, where that was asked before; None asks it.
    """

    def __init__(
        self, model: Model, *, limits: LimitsConfig | None = None, analysis: NativeAnalysis | None = None
    ) -> None:
        self._model = model
        self._limits = limits
        self._analysis = analysis

    def analyze(self) -> ShapeReport:
        """Infers the shapes.

        Raises:
            InvalidModelError: The checker refuses the model.
            RuntimeFailure: The child process crashed, or ran past its limits.
        """
        analysis = self._analysis or analyse_native(self._model, self._limits)
        shapes: dict[str, Dims] = {}
        own = {dim for table in analysis.declared for dims in table.values() for dim in dims}
        kinds = _kinds(self._model)
        texts = dict(kinds)
        before: dict[str, int] = {}
        after: dict[str, int] = {}
        for (place, graph), declared, inferred in zip(
            self._model.graphs(), analysis.declared, analysis.shapes, strict=True
        ):
            computed = [*graph.inputs, *(value for node in graph for value in node.outputs)]
            for value in dict.fromkeys([*computed, *graph.initializers.values()]):
                name = value.name or ""
                if name in inferred:
                    shapes[_key(place, name)] = inferred[name]
                if name and value not in texts:
                    texts[value] = format_shape(inferred.get(name))
            for value in computed:
                name = value.name or ""
                if name and not value.is_initializer() and value not in kinds:
                    before[_key(place, name)] = _state(declared.get(name), own)
                    after[_key(place, name)] = _state(inferred.get(name), own)
        return ShapeReport(
            shapes=shapes,
            lines=tuple(_lines(self._model.ir.graph, texts, "")),
            dynamic_dims=_dynamic_dims(self._model.inputs, shapes, own),
            total=len(after),
            known_before=sum(state == _KNOWN for state in before.values()),
            known_after=sum(state == _KNOWN for state in after.values()),
            filled=tuple(name for name, state in after.items() if state > before[name]),
            partly_known=tuple(name for name, state in after.items() if state == _PARTLY),
            unknown=tuple(name for name, state in after.items() if state == _UNKNOWN),
        )


def interface_dims(model: Model) -> tuple[DynamicDim, ...]:
    """The dynamic dimensions of a model's inputs and outputs."""
    outputs = {spec.name: spec.shape for spec in model.outputs if spec.shape is not None}
    return _dynamic_dims(model.inputs, outputs, {dim for dims in outputs.values() for dim in dims})


_UNKNOWN, _PARTLY, _KNOWN = range(3)


def _state(dims: Dims | None, own: Collection[Dim]) -> int:
    if dims is None:
        return _UNKNOWN
    return _PARTLY if any(dim is None or _made_up(dim, own) for dim in dims) else _KNOWN


def _made_up(dim: Dim, own: Collection[Dim]) -> bool:
    """Whether inference gave the dimension its name, which is none of the model's `own`."""
    return isinstance(dim, str) and dim not in own and _MADE_UP.fullmatch(dim) is not None


def _kinds(model: Model) -> dict[ir.Value, str]:
    """What each value is that has no shape: "sequence", "optional" or "map"."""
    kinds: dict[ir.Value, str] = {}
    for _, graph in model.graphs():
        for value in (*graph.inputs, *(value for node in graph for value in node.outputs)):
            if isinstance(value.type, ir.SequenceType | ir.OptionalType):
                kinds[value] = "sequence" if isinstance(value.type, ir.SequenceType) else "optional"
    specs = {spec.name: spec.kind for spec in (*model.inputs, *model.outputs)}
    for value in (*model.ir.graph.inputs, *model.ir.graph.outputs):
        kind = specs.get(value.name or "", "tensor")
        if kind in ("sequence", "optional", "map"):
            kinds[value] = kind
    return kinds


def _key(place: str, name: str) -> str:
    return f"{place}:{name}" if place else name


def _dynamic_dims(
    inputs: Iterable[TensorSpec], shapes: dict[str, Dims], own: Collection[Dim]
) -> tuple[DynamicDim, ...]:
    places: dict[str, dict[str, None]] = {}
    for spec in inputs:
        for axis, dim in spec.dynamic_dims:
            places.setdefault(dim_key(spec, axis, dim), {})[f"{spec.name}[{axis}]"] = None
    for tensor, dims in shapes.items():
        for axis, dim in enumerate(dims):
            if isinstance(dim, str) and not _made_up(dim, own):
                places.setdefault(dim, {})[f"{tensor}[{axis}]"] = None
    return tuple(DynamicDim(name=name, places=tuple(found)) for name, found in places.items())


def _lines(graph: ir.Graph, texts: dict[ir.Value, str], prefix: str) -> Iterator[str]:
    indent = prefix[: len(prefix) - len(prefix.lstrip())] + "  "
    for index, node in enumerate(graph):
        inputs = ", ".join(_describe(value, texts) for value in node.inputs)
        outputs = ", ".join(_describe(value, texts) for value in node.outputs)
        yield f"{prefix}[{index}] {operator_name(node)} in=[{inputs}] → out=[{outputs}]"
        for name, subgraph in _subgraphs(node):
            yield from _lines(subgraph, texts, f"{indent}{name}")


def _describe(value: ir.Value | None, texts: dict[ir.Value, str]) -> str:
    if value is None or not value.name:
        return "-"
    return f"{value.name}:{texts.get(value, '[?…]')}"


def _subgraphs(node: ir.Node) -> Iterator[tuple[str, ir.Graph]]:
    """The graphs in a node's attributes, each with the attribute's name."""
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.name, attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            for number, subgraph in enumerate(attribute.as_graphs()):
                yield f"{attribute.name}_{number}", subgraph
