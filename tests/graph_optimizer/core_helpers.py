"""Small passes, right and wrong ones, for the tests of what is around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.base import Pass, PassResult
from onnxsmith.graph_optimizer.passes.rules import GraphPass, RulePass
from onnxsmith.model import Model

HEADER = '<ir_version: 10, opset_import: ["": 21, "custom": 1]>\n'


def model_of(text: str, *, header: str = HEADER) -> Model:
    """A model from the text of a graph."""
    return Model.from_proto(onnx.parser.parse_model(header + text))


def op_types(model: Model) -> list[str]:
    return [node.op_type for node in model.ir.graph]


def run(model: Model, feeds: dict[str, Any]) -> list[Any]:
    """The model's outputs in ONNX Runtime, unoptimised, once the checker has passed it."""
    proto = model.to_proto()
    onnx.checker.check_model(proto, full_check=True)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


@dataclass(frozen=True)
class DropIdentity(RulePass):
    """Identity goes.

    A pass
    that is right.

    Attributes:
        most: How many go
            at most.
    """

    name: ClassVar[str] = "drop-identity"
    operators: ClassVar[frozenset[str]] = frozenset({"Identity"})

    most: int = 1000

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        source = node.inputs[0]
        assert source is not None
        if node.outputs[0].is_graph_output():
            return editor.decline(node, "it is an output")
        if editor.changes >= self.most:
            return False
        editor.replace(node.outputs[0], source)
        return True


@dataclass(frozen=True)
class SwapSub(RulePass):
    """Turns a - b into b - a, which is wrong."""

    name: ClassVar[str] = "swap-sub"
    operators: ClassVar[frozenset[str]] = frozenset({"Sub"})

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        left, right = node.inputs
        node.replace_input_with(0, right)
        node.replace_input_with(1, left)
        return True


@dataclass(frozen=True)
class DoubleIdentity(GraphPass):
    """Doubles each Identity: it makes a model larger each time it runs, and never settles."""

    name: ClassVar[str] = "double-identity"

    most: int = 1000

    def edit(self, editor: Editor) -> None:
        for node in editor.nodes():
            if node.op_type == "Identity" and editor.changes < self.most:
                editor.root = node
                editor.set_input(node, 0, editor.emit("Identity", [node.inputs[0]]))
                editor.count()


@dataclass(frozen=True)
class Raises(GraphPass):
    """Raises once it has changed something."""

    name: ClassVar[str] = "raises"

    def edit(self, editor: Editor) -> None:
        node = editor.nodes()[0]
        node.replace_input_with(0, None)
        raise ValueError("planted\nand more lines")


@dataclass(frozen=True)
class BreaksStructure(GraphPass):
    """Leaves a required input out."""

    name: ClassVar[str] = "breaks-structure"

    def edit(self, editor: Editor) -> None:
        for node in editor.nodes():
            if node.op_type == "Relu":
                node.replace_input_with(0, None)
                editor.count()


@dataclass(frozen=True)
class RenamesOutput(GraphPass):
    """Breaks the interface."""

    name: ClassVar[str] = "renames-output"

    def edit(self, editor: Editor) -> None:
        editor.model.graph.outputs[0].name = "renamed"
        editor.count()


@dataclass(frozen=True)
class Outside(Pass):
    """Makes another model and leaves the one that it was given: what an outside optimiser does."""

    name: ClassVar[str] = "outside"
    in_place: ClassVar[bool] = False

    fails: bool = False

    def run(self, model: Model) -> PassResult:
        if self.fails:
            raise RuntimeError("it died")
        other = Model(model.ir.clone())
        result = DropIdentity().run(other)
        return PassResult(other, result.changes)


PASSES = {
    kind.name: kind for kind in (DropIdentity, SwapSub, DoubleIdentity, Raises, BreaksStructure, RenamesOutput, Outside)
}
