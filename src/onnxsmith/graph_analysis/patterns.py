"""Operators that runtimes fuse, found in a model as it stands.

`fused_by` says what is expected of ONNX Runtime; what it really did is measured by `FusionAnalyzer.compare_fusion`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnxsmith.graph_analysis.matching import (
    Match,
    Term,
    constant_source,
    integers,
    is_noop,
    match,
    pattern_name,
    root_types,
    scalar,
)
from onnxsmith.model import Model
from onnxsmith.records import Record


class PatternMatch(Record):
    """A group of operators that a runtime can replace by one.

    Attributes:
        pattern: Its name: "Conv+BatchNormalization+Relu".
        nodes: The labels of its nodes, in the graph's order.
        graph: The graph they are in: "" for the main graph, else as `Model.graphs` calls it.
        fused_by: The step of ONNX Runtime that is expected to fuse it: a claim, to be measured.
    """

    pattern: str
    nodes: tuple[str, ...]
    graph: str
    fused_by: str


def node_label(node: ir.Node, index: int) -> str:
    """The node's name, or its operator and its place in its graph: "Conv_3"."""
    return node.name or f"{node.op_type}_{index}"


def find_patterns(model: Model) -> tuple[PatternMatch, ...]:
    """Finds what runtimes fuse, in the main graph and every subgraph.

    A group counts only where one operator could stand for it: no value inside it has another user or is an output of
    the graph. A node is in one match at most, the largest one.

    Returns:
        The matches, graph by graph, in the order of their first nodes.
    """
    return tuple(found for place, graph in model.graphs() for found in _find_in(graph, place))


def _find_in(graph: ir.Graph, place: str) -> list[PatternMatch]:
    index = {node: number for number, node in enumerate(graph)}
    by_type: dict[str, list[ir.Node]] = {}
    for node in reversed(graph):  # so that the whole of a chain is found before a part of it
        by_type.setdefault(pattern_name(node), []).append(node)
    taken: set[ir.Node] = set()
    found = []
    for pattern in PATTERNS:
        for op_type in sorted(root_types(pattern.term)):
            for root in by_type.get(op_type, ()):
                nodes = _first_fit(pattern, root, taken)
                taken.update(nodes)
                if nodes:
                    nodes.sort(key=index.__getitem__)
                    found.append((index[nodes[0]], _record(pattern, nodes, index, place)))
    return [record for _, record in sorted(found, key=lambda pair: pair[0])]


def _first_fit(pattern: Pattern, root: ir.Node, taken: set[ir.Node]) -> list[ir.Node]:
    """The nodes of the first match at `root` that is free and closed, or none."""
    for fit in match(pattern.term, root):
        free = all(node not in taken or pattern_name(node) in pattern.shared for node in fit.nodes)
        if free and fit.is_closed(pattern.shared) and pattern.check(fit):
            return list(fit.nodes)
    return []


def _record(pattern: Pattern, nodes: list[ir.Node], index: dict[ir.Node, int], place: str) -> PatternMatch:
    return PatternMatch(
        pattern=pattern.name or "+".join(dict.fromkeys(map(pattern_name, nodes))),
        nodes=tuple(node_label(node, index[node]) for node in nodes),
        graph=place,
        fused_by=f"{pattern.fused_by} (expected, not measured)",
    )


def _always(fit: Match) -> bool:
    return True


def _is_removable(fit: Match) -> bool:
    """A no-op, but not the Identity that makes an output of the graph from what no node makes."""
    node = fit.nodes[0]
    source = node.inputs[0]
    return is_noop(node) and not (
        node.outputs[0].is_graph_output() and source is not None and source.producer() is None
    )


def _adds_two_values(fit: Match) -> bool:
    """Whether one Add, the residual one, has no constant operand, and the means are over the last axes."""
    residual = [
        node
        for node in fit.nodes
        if node.op_type == "Add" and all(constant_source(value) is None for value in node.inputs)
    ]
    return len(residual) == 1 and _means_over_last_axes(fit)


def _per_channel(fit: Match) -> bool:
    """Whether the constant of the last Add or Mul has one element, or one for each channel of the convolution."""
    conv, last = fit.node("Conv"), fit.node("Add", "Mul")
    weight = constant_source(conv.inputs[1])
    other = next((tensor for tensor in map(constant_source, last.inputs) if tensor is not None), None)
    if weight is None or other is None:
        return False
    dims = tuple(reversed(other.shape.numpy()))
    channel = len(weight.shape) - 2
    return len(dims) <= channel + 2 and all(dim == 1 for axis, dim in enumerate(dims) if axis != channel)


def _means_over_last_axes(fit: Match) -> bool:
    """Whether every mean is over the last axes and keeps them."""
    for node in fit.nodes:
        if node.op_type != "ReduceMean":
            continue
        if node.attributes.get_int("keepdims", 1) == 0:
            return False
        axes = tuple(node.attributes.get_ints("axes", ()))
        if len(node.inputs) > 1:  # since opset 18
            axes = integers(node.inputs[1]) or ()
        shape = node.inputs[0].shape if node.inputs[0] is not None else None
        if not axes or (any(axis >= 0 for axis in axes) and shape is None):
            return False
        rank = len(shape) if shape is not None else 0
        if {axis - rank if axis >= 0 else axis for axis in axes} != set(range(-len(axes), 0)):
            return False
    return True


def _swaps_last_two(fit: Match) -> bool:
    """Whether the Transpose swaps the last two axes of a value that is not constant."""
    node = fit.node("Transpose")
    value = node.inputs[0]
    if value is None or constant_source(value) is not None:
        return False
    perm = tuple(node.attributes.get_ints("perm", ()))
    if not perm:  # all axes reversed
        return value.shape is not None and len(value.shape) == 2
    rank = len(perm)
    return rank > 1 and perm == (*range(rank - 2), rank - 1, rank - 2)


def _pads_space_with_zero(fit: Match) -> bool:
    """Whether the Pad adds zeros, at the spatial axes only, to a convolution that takes explicit padding."""
    pad, conv = fit.node("Pad"), fit.node("Conv")
    explicit = conv.attributes.get_string("auto_pad", "NOTSET") == "NOTSET"
    if not explicit or pad.attributes.get_string("mode", "constant") != "constant":
        return False
    value: float | None = 0.0
    if len(pad.inputs) == 1:  # before opset 11
        pads = tuple(pad.attributes.get_ints("pads", ()))
        value = pad.attributes.get_float("value", 0.0)
    else:
        pads = integers(pad.inputs[1]) or ()
        if len(pad.inputs) > 2 and pad.inputs[2] is not None:
            value = scalar(pad.inputs[2])
    has_axes = len(pad.inputs) > 3 and pad.inputs[3] is not None
    if not pads or value != 0.0 or min(pads) < 0 or has_axes:
        return False
    rank = len(pads) // 2
    return pads[:2] == pads[rank : rank + 2] == (0, 0)


@dataclass(frozen=True)
class Pattern:
    """A row of the table.

    Attributes:
        name: The pattern's name; "" joins the operators that were found.
        term: What the last node must be.
        fused_by: The step that is expected to fuse it.
        check: What a term cannot say.
        shared: Operators that may be in another match, and have other users, as well.
    """

    name: str
    term: Term
    fused_by: str
    check: Callable[[Match], bool] = _always
    shared: frozenset[str] = frozenset()


def _layer_norm(x: Term) -> tuple[Any, ...]:
    """(x − mean) / √(mean((x − mean)²) + ε) · γ + β; the two differences may be one node or two."""
    centred = ("Sub", x, ("ReduceMean", x))
    variance = ("ReduceMean", _square(centred))
    return ("Add", ("Mul", ("Div", centred, ("Sqrt", ("Add", variance, "const"))), "const"), "const")


def _rms_norm() -> tuple[Any, ...]:
    """RMSNorm, x / √(mean(x²) + ε) · γ: by a division or by the reciprocal."""
    root = ("Sqrt", ("Add", ("ReduceMean", _square("x")), "const"))
    inverse: Term = [("Reciprocal", root), ("Div", 1, root)]
    return ("Mul", ("*Cast", [("Div", "x", root), ("Mul", "x", inverse)]), "const")


def _square(term: Term) -> Term:
    return [("Pow", term, 2), ("Mul", term, term)]


def _halved(gate: Term) -> Term:
    """0.5 · x · gate, however it is bracketed."""
    return [("Mul", ("Mul", "x", gate), 0.5), ("Mul", ("Mul", "x", 0.5), gate), ("Mul", "x", ("Mul", gate, 0.5))]


def _gelu_erf() -> Term:
    """0.5 · x · (1 + erf(x / √2))."""
    scaled: Term = [("Div", "x", math.sqrt(2)), ("Mul", "x", math.sqrt(0.5))]
    return _halved(("Add", ("Erf", scaled), 1))


def _gelu_tanh() -> Term:
    """0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))."""
    cube: Term = [("Pow", "x", 3), ("Mul", "x", _square("x"))]
    root = math.sqrt(2 / math.pi)
    factor = ("Add", ("Mul", _square("x"), 0.044715), 1)
    inner: Term = [
        ("Mul", ("Add", "x", ("Mul", cube, 0.044715)), root),
        ("Mul", ("Mul", "x", factor), root),
        ("Mul", ("Mul", "x", root), factor),
    ]
    return _halved(("Add", ("Tanh", inner), 1))


def _hard_swish() -> Term:
    """HardSwish, x · max(0, min(6, x + 3)) / 6, or x · HardSigmoid(x)."""
    shifted = ("Add", "x", 3)
    gate: Term = [("Clip", {"min": 0, "max": 6}, shifted), ("Clip", shifted, 0, 6)]
    sixth: list[Term] = [("Div", gate, 6), ("Mul", gate, 1 / 6)]
    product = ("Mul", "x", gate)
    hard_sigmoid = ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}, "x")
    return [("Mul", "x", hard_sigmoid), ("Mul", "x", sixth), ("Div", product, 6), ("Mul", product, 1 / 6)]


def _attention() -> tuple[Any, ...]:
    """MatMul → scale and mask → Softmax → MatMul, with the guard against rows that are masked as a whole."""
    softmax = ("Softmax", ("*Mul|Div|Add|Where|Cast|Reshape", ("MatMul",)))
    return ("MatMul", ("*Cast|Reshape", [softmax, ("Where", ("IsNaN", softmax), "_", softmax)]))


_ACTIVATIONS = "Relu|Clip|LeakyRelu|Sigmoid|Tanh|HardSigmoid|Elu"
_BATCH_NORM = ({"training_mode": 0}, "const", "const", "const", "const")
_CONV_BN = ("BatchNormalization", ("Conv", "_", "const"), *_BATCH_NORM)
_MATMUL_BN = ("BatchNormalization", ("MatMul", "_", "const"), *_BATCH_NORM)
_GEMM_BN = ("BatchNormalization", ("Gemm", "_", "const"), *_BATCH_NORM)
_CONV_ADD = ("Add", ("Conv",), "const")
_MATMUL_ADD = ("Add", ("MatMul",), "const")
_DQ = ("DequantizeLinear",)

_NO_STEP = "no step on the CPU provider"

PATTERNS = (
    Pattern("", ("Identity|Dropout", "_"), "EliminateIdentity and EliminateDropout, ORT_ENABLE_BASIC", _is_removable),
    Pattern(
        "",
        ("QuantizeLinear", (f"*{_ACTIVATIONS}", ("*", _DQ, [_DQ, "const"], ...))),
        "QDQSelectorActionTransformer, ORT_ENABLE_EXTENDED",
        shared=frozenset({"DequantizeLinear"}),
    ),
    Pattern("Attention", _attention(), "AttentionFusion, ORT_ENABLE_EXTENDED, in the layouts it knows"),
    Pattern("SkipLayerNorm", _layer_norm(("Add",)), "SkipLayerNormFusion, ORT_ENABLE_EXTENDED", _adds_two_values),
    Pattern(
        "SkipLayerNorm", ("LayerNormalization", ("Add",)), "SkipLayerNormFusion, ORT_ENABLE_EXTENDED", _adds_two_values
    ),
    Pattern(
        "LayerNorm",
        _layer_norm("x"),
        "LayerNormFusion, ORT_ENABLE_BASIC since opset 17, ORT_ENABLE_EXTENDED before",
        _means_over_last_axes,
    ),
    Pattern("RMSNorm", _rms_norm(), "SimplifiedLayerNormFusion, ORT_ENABLE_EXTENDED", _means_over_last_axes),
    Pattern("GELU", _gelu_erf(), "GeluFusion, ORT_ENABLE_EXTENDED"),
    Pattern("GELU", _gelu_tanh(), _NO_STEP),
    Pattern("QuickGELU", ("Mul", "x", ("Sigmoid", ("Mul", "x", 1.702))), "QuickGeluFusion, ORT_ENABLE_EXTENDED"),
    Pattern("SiLU", ("Mul", "x", ("Sigmoid", "x")), "QuickGeluFusion, ORT_ENABLE_EXTENDED"),
    Pattern("HardSwish", _hard_swish(), _NO_STEP),
    Pattern("", (_ACTIVATIONS, _CONV_BN), "ConvBNFusion, ORT_ENABLE_BASIC; ConvActivationFusion, ORT_ENABLE_EXTENDED"),
    Pattern("", _CONV_BN, "ConvBNFusion, ORT_ENABLE_BASIC"),
    Pattern("", _MATMUL_BN, "MatmulBNFusion, ORT_ENABLE_BASIC"),
    Pattern("", _GEMM_BN, _NO_STEP),
    Pattern(
        "",
        (_ACTIVATIONS, _CONV_ADD),
        "ConvAddFusion, ORT_ENABLE_BASIC; ConvActivationFusion, ORT_ENABLE_EXTENDED",
        _per_channel,
    ),
    Pattern("", (_ACTIVATIONS, ("Add", ("Conv",), "_")), "NchwcTransformer, ORT_ENABLE_ALL"),
    Pattern("", (_ACTIVATIONS, ("Conv",)), "ConvActivationFusion, ORT_ENABLE_EXTENDED"),
    Pattern("", _CONV_ADD, "ConvAddFusion, ORT_ENABLE_BASIC", _per_channel),
    Pattern("", ("Mul", ("Conv",), "const"), "ConvMulFusion, ORT_ENABLE_BASIC", _per_channel),
    Pattern(
        "", (_ACTIVATIONS, _MATMUL_ADD), "MatMulAddFusion, ORT_ENABLE_BASIC; GemmActivationFusion, ORT_ENABLE_EXTENDED"
    ),
    Pattern("", _MATMUL_ADD, "MatMulAddFusion, ORT_ENABLE_BASIC"),
    Pattern("", (_ACTIVATIONS, ("Gemm",)), "GemmActivationFusion, ORT_ENABLE_EXTENDED"),
    Pattern("", (_ACTIVATIONS, ("MatMul",)), _NO_STEP),
    Pattern(
        "",
        [("MatMul", ("Transpose",)), ("MatMul", "_", ("Transpose",))],
        "MatmulTransposeFusion, ORT_ENABLE_EXTENDED",
        _swaps_last_two,
        shared=frozenset({"MatMul"}),
    ),
    Pattern("", ("Conv", ("Pad",)), "PadFusion, ORT_ENABLE_BASIC", _pads_space_with_zero, shared=frozenset({"Conv"})),
    Pattern(
        "Transpose+Transpose", ("Transpose", ("*Transpose", ("Transpose",))), "TransposeOptimizer, ORT_ENABLE_BASIC"
    ),
    Pattern("Reshape+Reshape", ("Reshape", ("*Reshape", ("Reshape",))), "ReshapeFusion, ORT_ENABLE_BASIC"),
)
"""The table, larger patterns before those they contain."""
