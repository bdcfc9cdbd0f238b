"""What operators of one opset become at a later one, where more than the schema's wording changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic import is_positive
from onnxsmith.graph_optimizer.editor import Editor, Unknown
from onnxsmith.graph_optimizer.passes.opset_forms import REDUCTIONS, given, known_ints, splits_of

_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")

_ALLOW_ZERO = 14

Edit = Callable[[Editor, ir.Node], None]
"""Changes a node, at the new opset."""

_Plan = Callable[[Editor, ir.Node, int], Edit | None]


@dataclass(frozen=True)
class Change:
    """How an operator is taken from opset to opset.

    Attributes:
        at: The opsets in which it became another.
        plan: Looks at a node, at the old opset, and returns what to do at the new one, or None where nothing.
            It raises `Unknown` with the reason where the node cannot be moved.
    """

    at: tuple[int, ...]
    plan: _Plan

    def crossed(self, before: int, after: int) -> bool:
        """Whether it became another between two opsets."""
        low, high = sorted((before, after))
        return any(low < version <= high for version in self.at)


def _attributes(node: ir.Node, *without: str, **more: Any) -> dict[str, Any]:
    kept: dict[str, Any] = {name: held for name, held in node.attributes.items() if name not in without}
    return {**kept, **{name: value for name, value in more.items() if value is not None}}


def _same(op_type: str, inputs: Iterable[ir.Value | None], attributes: dict[str, Any]) -> Edit:
    """Puts a node with constant inputs in another's place."""
    wanted = list(inputs)

    def edit(editor: Editor, node: ir.Node) -> None:
        while wanted and wanted[-1] is None:
            wanted.pop()
        editor.replace_node(node, op_type, wanted, attributes)

    return edit


def without_attributes(names: Iterable[str]) -> Edit:
    """Takes attributes from a node."""
    gone = list(names)

    def edit(editor: Editor, node: ir.Node) -> None:
        for name in gone:
            del node.attributes[name]
        editor.mark(node)

    return edit


def _numbers(editor: Editor, numbers: Iterable[int], hint: str) -> ir.Value:
    return editor.constant(np.array(list(numbers), np.int64), hint)


def _only_later(editor: Editor, node: ir.Node, opset: int) -> None:
    if opset < editor.opset:
        raise Unknown(f"{node.op_type} is another at opset {opset}, and is not taken back")


def _axes(editor: Editor, node: ir.Node, opset: int) -> Edit | None:
    """Squeeze, Unsqueeze, reductions: axes are an attribute, and later an input."""
    if opset < editor.opset:
        axes = known_ints(editor, given(node, 1))
        if (axes is None and given(node, 1) is not None) or editor.attribute(node, "noop_with_empty_axes", 0):
            raise Unknown("its axes are computed, and an attribute at the older opset")
        attributes = _attributes(node, "noop_with_empty_axes", axes=axes or None)
        return lambda editor, node: editor.replace_node(node, node.op_type, [node.inputs[0]], attributes)
    held = editor.attribute(node, "axes")
    if held is None:
        return None
    attributes = _attributes(node, "axes")
    return lambda editor, node: editor.replace_node(
        node, node.op_type, [node.inputs[0], _numbers(editor, held, "axes")], attributes
    )


def _split(editor: Editor, node: ir.Node, opset: int) -> Edit | None:
    if opset < editor.opset:
        return _split_of_before(editor, node, opset)
    sizes = editor.attribute(node, "split")
    if sizes is not None:
        attributes = _attributes(node, "split")
        return lambda editor, node: editor.replace_node(
            node, "Split", [node.inputs[0], _numbers(editor, sizes, "split")], attributes
        )
    if opset >= 18 and given(node, 1) is None and editor.attribute(node, "num_outputs") is None:
        return lambda editor, node: editor.set_attribute(node, "num_outputs", len(node.outputs))
    return None


def _split_of_before(editor: Editor, node: ir.Node, opset: int) -> Edit:
    """Before opset 18 the parts are as large as one another or listed, before 13 in an attribute."""
    sizes = splits_of(editor, node)
    if sizes is None:
        raise Unknown("the sizes of its parts are not known")
    axis = editor.attribute(node, "axis", 0)

    def edit(editor: Editor, node: ir.Node) -> None:
        inputs, attributes = [node.inputs[0]], {"axis": axis}
        if opset >= 13:
            editor.replace_node(node, "Split", [*inputs, _numbers(editor, sizes, "split")], attributes)
        else:
            editor.replace_node(node, "Split", inputs, {**attributes, "split": sizes})

    return edit


def _slice(editor: Editor, node: ir.Node, opset: int) -> Edit:
    _only_later(editor, node, opset)
    held = [editor.attribute(node, name) for name in ("starts", "ends", "axes")]

    def edit(editor: Editor, node: ir.Node) -> None:
        bounds = [_numbers(editor, numbers, "bound") for numbers in held if numbers is not None]
        editor.replace_node(node, "Slice", [node.inputs[0], *bounds])

    return edit


def _top_k(editor: Editor, node: ir.Node, opset: int) -> Edit:
    _only_later(editor, node, opset)
    count, attributes = editor.attribute(node, "k"), _attributes(node, "k")
    return lambda editor, node: editor.replace_node(
        node, "TopK", [node.inputs[0], _numbers(editor, [count], "k")], attributes
    )


def _scalar_type(editor: Editor, node: ir.Node) -> np.dtype[Any]:
    dtype = editor.dtype(node.inputs[0])
    if dtype is None:
        raise Unknown("the type of its input is not known")
    return dtype.numpy()


def _pad(editor: Editor, node: ir.Node, opset: int) -> Edit:
    _only_later(editor, node, opset)
    pads, value = editor.attribute(node, "pads"), editor.attribute(node, "value", 0.0)
    dtype, attributes = _scalar_type(editor, node), _attributes(node, "pads", "value")

    def edit(editor: Editor, node: ir.Node) -> None:
        inputs = [node.inputs[0], _numbers(editor, pads, "pads"), editor.constant(np.array(value, dtype), "value")]
        editor.replace_node(node, "Pad", inputs, attributes)

    return edit


def _clip(editor: Editor, node: ir.Node, opset: int) -> Edit:
    _only_later(editor, node, opset)
    held, dtype = [editor.attribute(node, name) for name in ("min", "max")], _scalar_type(editor, node)

    def edit(editor: Editor, node: ir.Node) -> None:
        bounds = [None if bound is None else editor.constant(np.array(bound, dtype), "bound") for bound in held]
        _same("Clip", [node.inputs[0], *bounds], {})(editor, node)

    return edit


def _only_tested(editor: Editor, node: ir.Node) -> None:
    """Before opset 7, BatchNormalization and Dropout trained unless told otherwise."""
    if editor.opset < 7 and not editor.attribute(node, "is_test", 0):
        raise Unknown("it trains, which another opset does differently")


def _broadcast(editor: Editor, node: ir.Node, opset: int) -> Edit | None:
    """Before opset 7, the second operand was stretched where the node said so, from an axis that it named."""
    axis, ranks = editor.attribute(node, "axis"), [editor.rank(value) for value in node.inputs]
    if axis is not None and (None in ranks or axis + (ranks[1] or 0) != ranks[0]):
        raise Unknown("its second operand is not aligned with the last axes of the first")
    if "broadcast" not in node.attributes and axis is None:
        return None
    return lambda editor, node: editor.replace_node(node, node.op_type, list(node.inputs))


def _dropout(editor: Editor, node: ir.Node, opset: int) -> Edit:
    _only_later(editor, node, opset)
    _only_tested(editor, node)
    if any(mask.uses() or mask.is_graph_output() for mask in node.outputs[1:]):
        raise Unknown("its mask is used, which another opset makes differently")
    ratio = editor.attribute(node, "ratio", 0.5)

    def edit(editor: Editor, node: ir.Node) -> None:
        if opset < 12:
            editor.replace(node.outputs[0], editor.emit("Dropout", [node.inputs[0]], {"ratio": ratio}))
            return
        inputs = [node.inputs[0], editor.constant(np.array(ratio, np.float32), "ratio")]
        editor.replace(node.outputs[0], editor.emit("Dropout", inputs))

    return edit


def _batch_norm(editor: Editor, node: ir.Node, opset: int) -> Edit | None:
    _only_later(editor, node, opset)
    _only_tested(editor, node)
    if editor.attribute(node, "spatial", 1) != 1:
        raise Unknown("it normalises each element by its own mean, which later opsets cannot")
    if any(value.name for value in node.outputs[1:]):
        raise Unknown("it trains, which another opset does differently")
    attributes = _attributes(node, "spatial", "is_test", "consumed_inputs")
    return lambda editor, node: editor.replace(
        node.outputs[0], editor.emit("BatchNormalization", list(node.inputs), attributes)
    )


def _softmax(editor: Editor, node: ir.Node, opset: int) -> Edit:
    """Before opset 13, all axes from the given one on were one."""
    _only_later(editor, node, opset)
    axis, rank = editor.attribute(node, "axis", 1), editor.rank(node.inputs[0])
    if rank is not None and axis in (-1, rank - 1):
        return lambda editor, node: editor.set_attribute(node, "axis", -1)

    zeros = {"allowzero": 1} if opset >= _ALLOW_ZERO else {}
    if not zeros:
        shape = editor.shape(node.inputs[0])
        if shape is None or not all(map(is_positive, shape[1:])):
            raise Unknown("a dimension after the first may be 0, which Reshape has no word for before opset 14")

    def edit(editor: Editor, node: ir.Node) -> None:
        flat = editor.emit("Flatten", [node.inputs[0]], {"axis": axis})
        made = editor.emit(node.op_type, [flat], {"axis": -1})
        editor.replace_node(node, "Reshape", [made, editor.emit("Shape", [node.inputs[0]])], zeros)

    return edit


def _resize(editor: Editor, node: ir.Node, opset: int) -> Edit | None:
    """Upsample is Resize from opset 10 on, which counts coordinates in several ways from 11 on."""
    _only_later(editor, node, opset)
    if node.op_type == "Resize" and editor.opset >= 11:
        if opset >= 13 and editor.attribute(node, "coordinate_transformation_mode") == "tf_half_pixel_for_nn":
            raise Unknown("later opsets do not count coordinates as tf_half_pixel_for_nn does")
        return None
    held, scales = editor.attribute(node, "scales"), given(node, 1)
    mode = editor.attribute(node, "mode", "nearest")
    factors = held if held is not None else editor.array(scales)
    more: dict[str, Any] = {"mode": mode}
    if opset >= 11:
        more["coordinate_transformation_mode"] = "asymmetric"
        if mode == "nearest":
            if factors is None or not np.all(np.asarray(factors) >= 1):
                raise Unknown("it may shrink, which later opsets round differently")
            more["nearest_mode"] = "floor"

    def edit(editor: Editor, node: ir.Node) -> None:
        factor = scales if held is None else editor.constant(np.array(held, np.float32), "scales")
        region = [] if opset < 11 else [editor.constant(np.zeros(0, np.float32), "roi")]
        editor.replace_node(node, "Upsample" if opset < 10 else "Resize", [node.inputs[0], *region, factor], more)

    return edit


def _roi_align(editor: Editor, node: ir.Node, opset: int) -> Edit:
    _only_later(editor, node, opset)
    return lambda editor, node: editor.set_attribute(node, "coordinate_transformation_mode", "output_half_pixel")


def _scatter(editor: Editor, node: ir.Node, opset: int) -> Edit:
    _only_later(editor, node, opset)
    return _same("ScatterElements", node.inputs, _attributes(node))


def _dft(editor: Editor, node: ir.Node, opset: int) -> Edit:
    _only_later(editor, node, opset)
    axis, attributes = editor.attribute(node, "axis", 1), _attributes(node, "axis")

    def edit(editor: Editor, node: ir.Node) -> None:
        inputs = [node.inputs[0], given(node, 1), editor.constant(np.array(axis, np.int64), "axis")]
        editor.replace_node(node, "DFT", inputs, attributes)

    return edit


def _grid_sample(editor: Editor, node: ir.Node, opset: int) -> Edit:
    names = {"bilinear": "linear", "bicubic": "cubic"}
    if opset < editor.opset:
        names = {new: old for old, new in names.items()}
    mode = editor.attribute(node, "mode", "bilinear" if opset > editor.opset else "linear")
    return lambda editor, node: editor.set_attribute(node, "mode", names.get(mode, mode))


def _group_norm(editor: Editor, node: ir.Node, opset: int) -> Edit | None:
    """From opset 21 on, there is a scale for each channel, and not for each group."""
    _only_later(editor, node, opset)
    shape, groups = editor.shape(node.inputs[0]), editor.attribute(node, "num_groups")
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    if not isinstance(channels, int):
        raise Unknown("the number of its channels is not known")
    each = channels // groups
    if each == 1:
        return None

    def edit(editor: Editor, node: ir.Node) -> None:
        inputs: list[ir.Value | None] = [node.inputs[0]]
        for value in node.inputs[1:]:
            column = editor.emit("Reshape", [value, _numbers(editor, [groups, 1], "shape")])
            wide = editor.emit("Expand", [column, _numbers(editor, [groups, each], "shape")])
            inputs.append(editor.emit("Reshape", [wide, _numbers(editor, [channels], "shape")]))
        editor.replace_node(node, "GroupNormalization", inputs, _attributes(node))

    return edit


def _mod(editor: Editor, node: ir.Node, opset: int) -> None:
    """Before opset 28, only C's fmod was there for floats."""
    dtype = editor.dtype(node.inputs[0])
    if opset < editor.opset and not editor.attribute(node, "fmod", 0) and (dtype is None or dtype.is_floating_point()):
        raise Unknown(f"Mod of floats is C's fmod alone at opset {opset}")


def _never(editor: Editor, node: ir.Node, opset: int) -> None:
    raise Unknown(f"{node.op_type} is another at opset {opset}")


CHANGES: dict[str, Change] = {
    **dict.fromkeys(_ARITHMETIC, Change((7,), _broadcast)),
    "Squeeze": Change((13,), _axes),
    "Unsqueeze": Change((13,), _axes),
    "ReduceSum": Change((13,), _axes),
    **dict.fromkeys(sorted(REDUCTIONS - {"ReduceSum"}), Change((18,), _axes)),
    "Split": Change((13, 18), _split),
    "Slice": Change((10,), _slice),
    "TopK": Change((10,), _top_k),
    "Pad": Change((11,), _pad),
    "Clip": Change((11,), _clip),
    "Dropout": Change((7, 12), _dropout),
    "BatchNormalization": Change((7, 9, 14), _batch_norm),
    "Softmax": Change((13,), _softmax),
    "LogSoftmax": Change((13,), _softmax),
    "Hardmax": Change((13,), _softmax),
    "Upsample": Change((9, 10), _resize),
    "Resize": Change((11, 13), _resize),
    "RoiAlign": Change((16,), _roi_align),
    "Scatter": Change((11,), _scatter),
    "Scan": Change((9,), _never),
    "Mod": Change((28,), _mod),
    "DFT": Change((20,), _dft),
    "GridSample": Change((20,), _grid_sample),
    "GroupNormalization": Change((21,), _group_norm),
}
"""The operators that became others."""
