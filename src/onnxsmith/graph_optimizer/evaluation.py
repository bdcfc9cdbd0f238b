"""Computes nodes before the model runs: common ones with NumPy here, the others with ONNX Runtime in one child process.

The values are those of ONNX Runtime with its optimisation off, to the last bit.
"""

from __future__ import annotations

import tempfile
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxsmith.config import LimitsConfig
from onnxsmith.errors import OnnxsmithError
from onnxsmith.graph_optimizer import evaluation_arithmetic, evaluation_layout  # noqa: F401  (they fill the table)
from onnxsmith.graph_optimizer.evaluation_table import TABLE, Call, NotHere
from onnxsmith.model import Model
from onnxsmith.model.specs import numpy_dtype
from onnxsmith.process import run_supervised

LIMITS = LimitsConfig(timeout_s=120.0)
"""Of the child process."""

_FAILURES = (NotHere, ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)
"""What NumPy says to what it cannot do; ONNX Runtime is asked then."""

_MOST_CHILDREN = 8
"""How often a child is started to find the nodes that fail."""

_TEXT_OPERATORS = frozenset(("Concat", "Expand", "Flatten", "Identity", "Reshape", "Shape", "Size", "Slice", "Split"))
_TEXT_OPERATORS |= {"Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"}
"""What is done to texts here. ONNX Runtime's Gather loses some of them, so that one is left to it."""

_IR_VERSION = 8

Source = Callable[[ir.Value], ir.TensorProtocol | None]


class StridedTensor(ir.Tensor[np.ndarray]):
    """A tensor over a view of other memory, laid out only when it is written."""

    def tofile(self, file: Any) -> None:
        """Writes the bytes."""
        file.write(self.tobytes())


@dataclass
class Evaluation:
    """What came out.

    Attributes:
        values: The contents of the values that were wanted, where they could be computed.
        refused: The nodes that could not be computed, with the reason; what depends on them is not listed.
        children: How many child processes were started.
    """

    values: dict[ir.Value, ir.TensorProtocol] = field(default_factory=dict)
    refused: dict[ir.Node, str] = field(default_factory=dict)
    children: int = 0


def evaluate(
    model: ir.Model,
    nodes: Sequence[ir.Node],
    wanted: Collection[ir.Value],
    source: Source,
    *,
    limits: LimitsConfig = LIMITS,
) -> Evaluation:
    """Computes nodes that depend on nothing but constants and each other.

    Args:
        model: The model that they are in.
        nodes: Standard, deterministic nodes without subgraphs, each after those that it depends on.
        wanted: The values to give back.
        source: Gives the tensor of a value that none of the nodes makes.
        limits: Limits on each child process.
    """
    return _Evaluator(model, nodes, wanted, source, limits).run()


class _Evaluator:
    def __init__(
        self,
        model: ir.Model,
        nodes: Sequence[ir.Node],
        wanted: Collection[ir.Value],
        source: Source,
        limits: LimitsConfig,
    ) -> None:
        self._model = model
        imports = model.opset_imports
        self._opset = imports.get("", imports.get("ai.onnx", 1))
        self._nodes = nodes
        self._wanted = frozenset(wanted)
        self._source = source
        self._limits = limits
        self._arrays: dict[ir.Value, np.ndarray] = {}
        self._users = Counter(value for node in nodes for value in node.inputs if value is not None)
        self._result = Evaluation()

    def run(self) -> Evaluation:
        left: dict[ir.Node, None] = {}
        with np.errstate(all="ignore"):
            for node in self._nodes:
                made = {value.producer() for value in node.inputs if value is not None}
                if not made.isdisjoint(left) or not self._here(node):
                    left[node] = None
        if left:
            self._by_runtime(list(left))
        self._result.values = {value: _tensor(self._arrays[value]) for value in self._wanted if value in self._arrays}
        return self._result

    def _here(self, node: ir.Node) -> bool:
        """Computes a node with NumPy, if it is one that has the same bits there."""
        function = TABLE.get(node.op_type)
        if function is None:
            return False
        try:
            inputs = [None if value is None else self._array(value) for value in node.inputs]
            if node.op_type not in _TEXT_OPERATORS and any(
                array is not None and array.dtype == object for array in inputs
            ):
                return False
            outputs = function(Call(node, inputs, self._opset))
        except _FAILURES:
            return False
        self._arrays.update(zip(node.outputs, outputs, strict=False))
        for value in node.inputs:
            if value is not None:
                self._users[value] -= 1
                if not self._users[value] and value not in self._wanted:
                    self._arrays.pop(value, None)
        return True

    def _array(self, value: ir.Value) -> np.ndarray:
        array = self._arrays.get(value)
        if array is not None:
            return array
        tensor = self._source(value)
        if tensor is None:
            raise NotHere
        if tensor.dtype == ir.DataType.STRING:
            array = np.empty(tensor.size, object)
            array[:] = list(tensor.string_data())  # type: ignore[attr-defined]  # only tensors of strings have it
            array = array.reshape(tensor.shape.numpy())
        else:
            array = tensor.numpy()
        self._arrays[value] = array
        return array

    def _by_runtime(self, nodes: list[ir.Node]) -> None:
        """Computes nodes with ONNX Runtime: all at once, or, where that fails, by halves."""
        waiting = deque([nodes])
        while waiting:
            part = self._computable(waiting.popleft())
            if not part:
                continue
            try:
                self._arrays.update(self._in_child(part))
            except OnnxsmithError as error:
                if len(part) == 1 or self._result.children >= _MOST_CHILDREN:
                    reason = f"it cannot be computed beforehand: {error.message.splitlines()[0]}"
                    self._result.refused.update(dict.fromkeys(part, reason))
                else:
                    half = len(part) // 2
                    waiting.extendleft((part[half:], part[:half]))

    def _computable(self, nodes: list[ir.Node]) -> list[ir.Node]:
        """Those whose inputs are there."""
        found: dict[ir.Node, None] = {}
        for node in nodes:
            given = [value for value in node.inputs if value is not None]
            if all(
                value.producer() in found or value in self._arrays or self._source(value) is not None for value in given
            ):
                found[node] = None
        return list(found)

    def _in_child(self, nodes: list[ir.Node]) -> dict[ir.Value, np.ndarray]:
        graph, outputs = self._subgraph(nodes)
        self._result.children += 1
        with tempfile.TemporaryDirectory(prefix="onnxsmith-") as folder:
            path = Model(graph).save(Path(folder) / "model.onnx")
            answer = run_supervised(
                "onnxsmith.graph_optimizer.evaluation_child:run",
                path,
                limits=self._limits,
                what="evaluating constant nodes",
            ).value
            found = {}
            for number, (value, (dtype, shape)) in enumerate(zip(outputs, answer, strict=True)):
                if dtype is None:
                    maker = value.producer()
                    assert maker is not None
                    self._result.refused[maker] = "its result is no tensor of numbers"
                else:
                    found[value] = np.fromfile(Path(folder) / str(number), numpy_dtype(dtype)).reshape(shape)
            return found

    def _subgraph(self, nodes: list[ir.Node]) -> tuple[ir.Model, list[ir.Value]]:
        """A model of some nodes, and the values that its outputs stand for."""
        inside = set(nodes)
        copies: dict[ir.Value, ir.Value] = {}
        initializers = []
        for node in nodes:
            for value in node.inputs:
                if value is not None and value not in copies and value.producer() not in inside:
                    copies[value] = self._initializer(value, f"c{len(copies)}")
                    initializers.append(copies[value])
            for value in node.outputs:
                copies[value] = ir.Value(name=f"v{len(copies)}" if value.name else "")
        made = [
            ir.Node(
                "",
                node.op_type,
                [None if value is None else copies[value] for value in node.inputs],
                list(node.attributes.values()),
                outputs=[copies[value] for value in node.outputs],
            )
            for node in nodes
        ]
        outputs = [
            value
            for node in nodes
            for value in node.outputs
            if value in self._wanted or any(use.node not in inside for use in value.uses())
        ]
        graph = ir.Graph(
            [],
            [copies[value] for value in outputs],
            nodes=made,
            initializers=initializers,
            opset_imports={"": self._opset},
            name="constants",
        )
        return ir.Model(graph, ir_version=max(self._model.ir_version, _IR_VERSION)), outputs

    def _initializer(self, value: ir.Value, name: str) -> ir.Value:
        array = self._arrays.get(value)
        tensor = self._source(value) if array is None else _tensor(array)
        assert tensor is not None
        shape = ir.Shape(tensor.shape.numpy())
        lazy = ir.LazyTensor(lambda: tensor, tensor.dtype, shape, name=name)
        is_text = tensor.dtype == ir.DataType.STRING
        return ir.Value(
            name=name, const_value=tensor if is_text else lazy, shape=shape, type=ir.TensorType(tensor.dtype)
        )


def _tensor(array: np.ndarray) -> ir.TensorProtocol:
    if array.dtype == object:
        return ir.StringTensor(array.reshape(-1).tolist(), shape=ir.Shape(array.shape))
    return ir.Tensor(array) if array.flags.c_contiguous else StridedTensor(array)
