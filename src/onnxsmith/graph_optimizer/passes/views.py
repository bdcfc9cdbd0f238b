"""Views: nodes that give the same elements in the same order another shape, and the Reshape that says the same."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic import Dim, is_positive
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.opset_forms import reshape_form

VIEWS = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze"))


def reshape_target(before: Sequence[Dim], after: Sequence[Dim]) -> list[int] | None:
    """The constant target of a Reshape from one shape to another that has as many elements, whatever the symbols are.

    A 0 copies the size at its place, and one -1 stands for what follows from the rest; where a size beside the -1 may
    be zero, nothing follows, and there is no such target.
    """
    target: list[int] = []
    rest = 0
    for axis, dim in enumerate(after):
        if axis < len(before) and before[axis] == dim and (dim == 0 or not isinstance(dim, int)):
            target.append(0)
        elif not isinstance(dim, int):
            target.append(-1)
            rest += 1
        elif dim == 0:
            return None
        else:
            target.append(dim)
    if rest > 1 or (rest and not all(number or is_positive(dim) for number, dim in zip(target, after, strict=True))):
        return None
    return target


def emit_view(editor: Editor, data: ir.Value, after: Sequence[Dim]) -> ir.Value | None:
    """A value with another shape: the data itself where it has it, else a Reshape before the root; None without one."""
    before = editor.shape(data)
    if before is None:
        return None
    if tuple(before) == tuple(after):
        return data
    target = reshape_target(before, after)
    form = None if target is None else reshape_form(editor, data, target)
    return None if form is None else editor.emit("Reshape", *form)
