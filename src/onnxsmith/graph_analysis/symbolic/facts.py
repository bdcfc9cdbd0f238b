"""What is known of the values of a model: inferred when it is asked for, and remembered."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_analysis.nesting import subgraphs
from onnxsmith.graph_analysis.symbolic import (  # noqa: F401  (they fill the tables)
    elementwise,
    evaluation,
    layout,
    networks,
    quantized,
    selection,
    signals,
    windows,
)
from onnxsmith.graph_analysis.symbolic.call import (
    CONTENTS,
    LARGEST_CONTENTS,
    NOTHING,
    RULES,
    Call,
    Contents,
    Element,
    Info,
    PartialShape,
    Shape,
    Unknown,
)
from onnxsmith.graph_analysis.symbolic.dims import Dim, Expr, fresh_symbol, make_symbol
from onnxsmith.graph_analysis.symbolic.onnx_inference import infer_with_onnx
from onnxsmith.graph_analysis.symbolic.scopes import body_input, body_outputs, node_outputs

_FAILURES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RuntimeError,
    TypeError,
    Unknown,
    ValueError,
)
"""What a rule may raise on a node that makes no sense; nothing is known of its outputs then."""

_DEFAULT_DOMAINS = frozenset(("", "ai.onnx"))
_LEARNING = "ai.onnx.ml"
_WHOLE_TYPES = frozenset(
    (
        ir.DataType.INT64,
        ir.DataType.INT32,
        ir.DataType.BOOL,
        ir.DataType.INT16,
        ir.DataType.INT8,
        ir.DataType.UINT8,
        ir.DataType.UINT16,
        ir.DataType.UINT32,
        ir.DataType.UINT64,
    )
)
_FLOAT_TYPES = frozenset((ir.DataType.FLOAT, ir.DataType.DOUBLE))
_RANGES = {
    dtype: (0, 1) if dtype == ir.DataType.BOOL else (int(np.iinfo(dtype.numpy()).min), int(np.iinfo(dtype.numpy()).max))
    for dtype in _WHOLE_TYPES
}
_KEPT_BYTES = 1 << 16
"""Arrays up to this size are kept."""


class Facts:
    """Shapes, dtypes, constants and partly known contents of values.

    Only the types of the main graph's inputs are trusted; all else follows from what makes a value. A value that a pass
    makes is inferred when it is asked for. An answer stays until it is forgotten.

    Args:
        model: The model.
    """

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._known: dict[ir.Value, Info] = {}
        self._tensors: dict[ir.Value, ir.TensorProtocol | None] = {}
        self._arrays: dict[ir.Value, np.ndarray] = {}
        self._owners: dict[ir.Graph, ir.Node] = {}

    def shape(self, value: ir.Value) -> tuple[Dim, ...] | None:
        """A tensor's shape; None where the rank is not known. A size that is not known is a symbol of its own."""
        return self.info(value).shape

    def static_shape(self, value: ir.Value) -> tuple[int, ...] | None:
        """A tensor's shape where every size is a number."""
        shape = self.info(value).shape
        if shape is None or not all(isinstance(dim, int) for dim in shape):
            return None
        return cast(tuple[int, ...], shape)

    def rank(self, value: ir.Value) -> int | None:
        """A tensor's rank."""
        shape = self.info(value).shape
        return None if shape is None else len(shape)

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """A tensor's element type."""
        return self.info(value).dtype

    def is_tensor(self, value: ir.Value) -> bool | None:
        """Whether a value is a tensor; None where that is not known."""
        info = self.info(value)
        if info.other is not None:
            return False
        return True if info.dtype is not None or info.shape is not None else None

    def data(self, value: ir.Value) -> tuple[Dim, ...] | Dim | None:
        """The contents of a tensor of whole numbers or truth values: one for rank 0, some for rank 1, else None."""
        info = self.info(value)
        found = info.contents
        if found is None or info.shape is None or len(info.shape) > 1 or info.dtype not in _WHOLE_TYPES:
            return None
        if not all(isinstance(element, int | Expr) for element in found):
            return None
        elements = cast(tuple[Dim, ...], found)
        return elements if info.shape else elements[0]

    def tensor(self, value: ir.Value) -> ir.TensorProtocol | None:
        """A constant's tensor: an initializer that no caller can override, or a Constant node's."""
        if value.is_initializer():
            return None if value.is_graph_input() else value.const_value
        node = value.producer()
        if node is None or node.op_type != "Constant" or node.domain not in _DEFAULT_DOMAINS:
            return None
        if value not in self._tensors:
            try:
                self._tensors[value] = constant_of(node)
            except _FAILURES:
                self._tensors[value] = None
        return self._tensors[value]

    def array(self, value: ir.Value) -> np.ndarray | None:
        """A constant's contents. Do not write to it.

        Raises:
            OSError: The file that its data is in cannot be read.
        """
        kept = self._arrays.get(value)
        if kept is not None:
            return kept
        tensor = self.tensor(value)
        if tensor is None:
            return None
        array = tensor.numpy()
        if array.nbytes <= _KEPT_BYTES:
            self._arrays[value] = array
        return array

    def is_constant(self, value: ir.Value) -> bool:
        """Whether a value is an initializer that no caller can override, or a Constant node's."""
        return self.tensor(value) is not None

    def forget(self) -> None:
        """Forgets everything, as after a change of an input's shape."""
        self._known.clear()
        self._tensors.clear()
        self._arrays.clear()
        self._owners.clear()

    def forget_values(self, values: Iterable[ir.Value]) -> None:
        """Forgets what is known of some values; what was concluded from it stays."""
        for value in values:
            self._known.pop(value, None)
            self._tensors.pop(value, None)
            self._arrays.pop(value, None)

    def assume(self, value: ir.Value, like: ir.Value) -> None:
        """Says that a value has the type, the shape and the contents of another one."""
        self._known[value] = self.info(like)

    def info(self, value: ir.Value) -> Info:
        """All that is known of a value."""
        found = self._known.get(value)
        if found is None:
            self._infer(value)
            found = self._known[value]
        return found

    def _infer(self, wanted: ir.Value) -> None:
        known = self._known
        waiting = [wanted]
        begun: set[ir.Value] = set()
        while waiting:
            value = waiting[-1]
            if value in known:
                waiting.pop()
                continue
            if value not in begun:
                begun.add(value)
                missing = [need for need in self._needs(value) if need not in known and need not in begun]
                if missing:
                    waiting.extend(missing)
                    continue
            node = value.producer()
            if node is None:
                known[value] = self._source(value)
            else:
                for output, info in zip(node.outputs, self._outputs(node), strict=False):
                    known.setdefault(output, info)
                known.setdefault(value, NOTHING)
            waiting.pop()

    def _needs(self, value: ir.Value) -> Iterator[ir.Value]:
        node = value.producer()
        if node is None:
            owner = self._owner(value)
            if owner is None:
                return
            node = owner
        else:
            for graph in subgraphs(node):
                yield from graph.outputs
        for given in node.inputs:
            if given is not None:
                yield given

    def _owner(self, value: ir.Value) -> ir.Node | None:
        """The node in whose body a value is an input."""
        graph = value.graph
        if not isinstance(graph, ir.Graph) or graph is self._model.graph or not value.is_graph_input():
            return None
        owner = self._owners.get(graph)
        if owner is None:
            self._owners = find_owners(self._model)
            owner = self._owners.get(graph)
        return owner

    def _source(self, value: ir.Value) -> Info:
        """What is known of a value that no node makes."""
        if value.is_graph_input():
            if value.graph is self._model.graph:
                return declared(value, named=True)
            owner = self._owner(value)
            if owner is None or value.graph is None:
                return NOTHING
            try:
                return body_input(owner, value, self._inputs(owner))
            except _FAILURES:
                return NOTHING
        tensor = self.tensor(value)
        return NOTHING if tensor is None else self._constant(value, tensor)

    def _constant(self, value: ir.Value, tensor: ir.TensorProtocol) -> Info:
        try:
            shape = tuple(int(dim) for dim in tensor.shape)  # type: ignore[arg-type]  # a size without a number is a failure
            return Info(tensor.dtype, shape, self._constant_contents(value, tensor.dtype, shape))
        except _FAILURES:
            return NOTHING

    def _constant_contents(self, value: ir.Value, dtype: ir.DataType, shape: tuple[int, ...]) -> Contents | None:
        size = 1
        for dim in shape:
            size *= dim
        if size > LARGEST_CONTENTS or not (dtype in _WHOLE_TYPES or (dtype in _FLOAT_TYPES and len(shape) <= 1)):
            return None
        try:
            array = self.array(value)
        except _FAILURES:
            return None
        if array is None:
            return None
        elements = array.reshape(-1).tolist()
        return tuple(map(int, elements)) if dtype == ir.DataType.BOOL else tuple(elements)

    def _outputs(self, node: ir.Node) -> Sequence[Info]:
        """What is known of a node's outputs, its inputs being known."""
        op_type = node.op_type
        if node.domain not in _DEFAULT_DOMAINS:
            op_type = f"{node.domain}.{op_type}"
        if (node.domain not in _DEFAULT_DOMAINS and op_type not in RULES) or (
            self._model.functions and node.op_identifier() in self._model.functions
        ):
            given = [declared(output, named=False) for output in node.outputs]
            return self._learned(node, given) if node.domain == _LEARNING else given
        if op_type == "Constant":
            tensor = self.tensor(node.outputs[0])
            return [NOTHING if tensor is None else self._constant(node.outputs[0], tensor)]
        inputs = self._inputs(node)
        if op_type == "Identity" and inputs:
            return [inputs[0] or NOTHING]
        call = Call(node, inputs, self._opset(node))
        try:
            if node.attributes and (bodies := list(subgraphs(node))):
                return node_outputs(call, [body_outputs(graph, self._known) for graph in bodies])
            found = RULES.get(op_type)
            if found is None:
                return infer_with_onnx(call, self._model.opset_imports, self._model.ir_version)
        except _FAILURES:
            return [NOTHING] * len(node.outputs)
        dtypes: list[ir.DataType | None] = []
        for dtype in found.dtypes:
            try:
                if isinstance(dtype, ir.DataType):
                    dtypes.append(dtype)
                elif isinstance(dtype, int):
                    dtypes.append(call.input(dtype).dtype)
                else:
                    dtypes.append(dtype(call))
            except _FAILURES:
                dtypes.append(None)
        try:
            shapes: Sequence[PartialShape | None] = found.shapes(call)
        except _FAILURES:
            shapes = ()
        last = len(dtypes) - 1
        infos = [
            Info(dtypes[min(index, last)], complete(shapes[index]) if index < len(shapes) else None)
            for index in range(len(node.outputs))
        ]
        if infos and (evaluate := CONTENTS.get(op_type)) is not None:
            first = infos[0]
            if first.shape is not None and is_small(first.shape) and first.dtype is not None:
                try:
                    first.contents = checked(evaluate(call, first), first)
                except _FAILURES:
                    first.contents = None
        return infos

    def _inputs(self, node: ir.Node) -> list[Info | None]:
        known = self._known
        return [None if given is None else known.get(given, NOTHING) for given in node.inputs]

    def _learned(self, node: ir.Node, given: Sequence[Info]) -> Sequence[Info]:
        """What is known of an operator of ONNX's machine learning domain: its types, where none is declared."""
        call = Call(node, self._inputs(node), self._model.opset_imports.get(_LEARNING, 1))
        try:
            found = infer_with_onnx(call, self._model.opset_imports, self._model.ir_version, _LEARNING)
        except _FAILURES:
            return given
        return [
            Info(inferred.dtype, other=inferred.other) if info.dtype is None and info.other is None else info
            for info, inferred in zip(given, found, strict=True)
        ]

    def _opset(self, node: ir.Node) -> int:
        graph = node.graph
        imports = graph.opset_imports if graph is not None else None
        if not imports or ("" not in imports and "ai.onnx" not in imports):
            imports = self._model.opset_imports
        return imports.get("", imports.get("ai.onnx", 1))


def constant_of(node: ir.Node) -> ir.TensorProtocol | None:
    """The tensor of a Constant node, whichever attribute it is in."""
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            return None
        if name == "value":
            # as_tensor() looks the tensor over, which takes longer than all else here
            return cast(ir.TensorProtocol, attribute.value) if attribute.type == ir.AttributeType.TENSOR else None
        if name in ("value_int", "value_ints"):
            return ir.tensor(np.array(attribute.value, dtype=np.int64))
        if name in ("value_float", "value_floats"):
            return ir.tensor(np.array(attribute.value, dtype=np.float32))
        if name == "value_string":
            return ir.StringTensor([attribute.as_string().encode()], shape=ir.Shape([]))
        if name == "value_strings":
            texts = attribute.as_strings()
            return ir.StringTensor([text.encode() for text in texts], shape=ir.Shape([len(texts)]))
    return None


def declared(value: ir.Value, *, named: bool) -> Info:
    """What the model says of a value; where `named`, the names of its sizes are symbols that others share."""
    kind = value.type
    if kind is not None and not isinstance(kind, ir.TensorType):
        return Info(other=kind)
    shape: Shape | None = None
    if value.shape is not None:
        dims: list[Dim] = []
        for dim in value.shape:
            if isinstance(dim, int):
                dims.append(dim if dim >= 0 else fresh_symbol())
            else:
                dims.append(make_symbol(dim.value) if named and dim.value else fresh_symbol())
        shape = tuple(dims)
    dtype = None if kind is None or kind.dtype == ir.DataType.UNDEFINED else kind.dtype
    return Info(dtype, shape)


def find_owners(model: ir.Model) -> dict[ir.Graph, ir.Node]:
    """The node that each subgraph belongs to."""
    owners: dict[ir.Graph, ir.Node] = {}
    waiting = deque([model.graph, *(function.graph for function in model.functions.values())])
    while waiting:
        for node in waiting.popleft():
            for graph in subgraphs(node):
                owners[graph] = node
                waiting.append(graph)
    return owners


def complete(shape: PartialShape | None) -> Shape | None:
    """A shape in which what a rule could not tell is a fresh symbol; None for one that cannot be."""
    if shape is None:
        return None
    dims: list[Dim] = []
    for dim in shape:
        if dim is None:
            dims.append(fresh_symbol())
        elif isinstance(dim, int) and dim < 0:
            return None
        else:
            dims.append(dim)
    return tuple(dims)


def is_small(shape: Shape) -> bool:
    """Whether the contents of a tensor of this shape are followed."""
    size = 1
    for dim in shape:
        if not isinstance(dim, int):
            return False
        size *= dim
    return size <= LARGEST_CONTENTS


def checked(elements: Sequence[Element], info: Info) -> Contents | None:
    """The elements, those that do not fit the dtype taken out; None where nothing is known of any."""
    if info.dtype in _WHOLE_TYPES:
        low, high = _RANGES[info.dtype]
        elements = tuple(
            None if isinstance(element, float) or (isinstance(element, int) and not low <= element <= high) else element
            for element in elements
        )
    elif info.dtype in _FLOAT_TYPES:
        elements = tuple(None if isinstance(element, Expr) else element for element in elements)
    else:
        return None
    size = 1
    for dim in info.shape or ():
        size *= cast(int, dim)
    if len(elements) != size or (elements and all(element is None for element in elements)):
        return None
    return elements
