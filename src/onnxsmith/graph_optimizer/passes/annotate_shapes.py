"""What is known of shapes, written into the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.rules import GraphPass


@dataclass(frozen=True)
class AnnotateShapes(GraphPass):
    """Writes the inferred dtype and shape of each value into the model, symbolic sizes included.

    Runtimes fuse more where they know shapes, and their own inference loses sizes that are computed. What is inferred
    takes the place of what was declared and is wrong. Inputs and outputs stay as they are declared.
    """

    name: ClassVar[str] = "annotate-shapes"

    def edit(self, editor: Editor) -> None:
        """Goes over the nodes of all graphs; constants carry their shape with them."""
        for node in editor.nodes():
            if not editor.is_standard(node):
                continue
            for value in node.outputs:
                shape, dtype = editor.shape(value), editor.dtype(value)
                if shape is None or dtype is None or not value.name or value.is_graph_output():
                    continue
                dims = ir.Shape([dim if isinstance(dim, int) else str(dim) for dim in shape])
                if value.shape != dims or value.dtype != dtype:
                    value.type, value.shape = ir.TensorType(dtype), dims
                    editor.count()
