"""Random graphs, valid by construction: each node is run as it is added; one that ONNX Runtime refuses is dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from graph_checks import run

Array = np.ndarray[Any, Any]

INT64_MAX = np.iinfo(np.int64).max
_DTYPES = (np.float32,) * 6 + (np.int64,) * 3 + (np.float64, np.float16, np.int32, np.bool_, np.uint8, np.int8)
_SPECIAL = {
    "f": (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 6.0, np.inf, -np.inf, np.nan),
    "i": (0, 1, -1, 2, 3),
    "u": (0, 1, 2, 255),
    "b": (True, False),
}
_UNARY = (
    "Relu Neg Abs Sqrt Exp Log Tanh Sigmoid Erf Floor Ceil Round Sign Identity Reciprocal Softplus Softsign IsNaN IsInf"
)
_UNARY += " Not Elu Selu LeakyRelu HardSigmoid HardSwish Sin Cos Celu ThresholdedRelu Gelu Mish Dropout Atan Det"
_BINARY = "Add Sub Mul Div Pow Max Min Mod And Or Xor Equal Less Greater LessOrEqual GreaterOrEqual PRelu MatMul"
_BINARY += " BitShift Sum Mean BitwiseAnd"
_REDUCE = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL2 ReduceL1 ReduceSumSquare ReduceLogSumExp"
_ARG = "ArgMax ArgMin"
_AXIS_NODES = "Softmax LogSoftmax Hardmax Flatten CumSum LpNormalization"
_ONNX = {np.dtype(t): helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in set(_DTYPES)}
_NUMBERS = [TensorProto.FLOAT] * 3 + [TensorProto.INT64] * 2 + [TensorProto.DOUBLE, TensorProto.FLOAT16]
_NUMBERS += [TensorProto.INT32, TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT8]


def is_defined(model: onnx.ModelProto, feeds: dict[str, Any]) -> bool:
    """Whether it runs, and the parts of each Concat fit: ONNX Runtime lets an empty one have any sizes."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    concats = [node for node in probe.graph.node if node.op_type == "Concat"]
    made = {name for node in probe.graph.node for name in node.output}
    given = {tensor.name: list(tensor.dims) for tensor in probe.graph.initializer}
    asked = {name for node in concats for name in node.input if name in made}
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in asked - {o.name for o in probe.graph.output})
    try:
        held = run(probe.SerializeToString(), feeds)
    except Exception:  # noqa: BLE001 - ONNX Runtime raises many kinds: it does not run on these inputs
        return False
    shapes = given | {name: list(np.shape(value)) for name, value in (held | feeds).items()}
    for node in concats:
        parts = [list(shapes[name]) for name in node.input]
        for part in parts:
            del part[node.attribute[0].i]
        if any(part != parts[0] for part in parts):
            return False
    return True


class Case:
    """A graph and what to run it on.

    Attributes:
        model: The model.
        feeds: By kind.
        half: Whether there is float16 in it: ONNX Runtime computes some of that in float32, by what stands beside it.
    """

    def __init__(self, model: onnx.ModelProto, feeds: dict[str, dict[str, Array]], *, half: bool) -> None:
        self.model = model
        self.feeds = feeds
        self.half = half


class _Scope:
    """The nodes of one graph."""

    def __init__(self, outer: _Scope | None = None) -> None:
        self.outer = outer
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.own: list[str] = []

    def visible(self) -> list[str]:
        return self.own + (self.outer.visible() if self.outer is not None else [])


class Fuzzer:
    """Makes one random graph.

    Args:
        seed: The same seed makes the same graph.
        size: How many nodes, about; chosen at random by default.
    """

    def __init__(self, seed: int, size: int | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.choice([11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]))
        self.size = size or int(self.rng.integers(5, 40))
        self.env: dict[str, Array] = {}
        self.scope = _Scope()
        self.inputs: dict[str, list[int | str]] = {}
        self.sizes: dict[str, int] = {}
        self.overridable: list[str] = []
        self.count = 0

    # Chances

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def array(self, dtype: Any, shape: tuple[int, ...]) -> Array:
        dtype = np.dtype(dtype)
        kind = dtype.kind
        if self.chance(0.45):
            value = self.pick(_SPECIAL[kind])
            return np.full(shape, value, dtype)
        if kind == "f":
            made = self.rng.standard_normal(shape) * self.pick([0.5, 1, 3])
            if self.chance(0.3):
                made = np.round(made)
            return np.asarray(made).astype(dtype)
        if kind == "b":
            return np.asarray(self.rng.integers(0, 2, shape)).astype(dtype)
        return np.asarray(self.rng.integers(0 if kind == "u" else -3, 5, shape)).astype(dtype)

    def value(self, *, kinds: str = "fiub", rank: tuple[int, int] = (0, 9), dtype: Any = None) -> str | None:
        names = [
            name
            for name in self.scope.visible()
            if self.env[name].dtype.kind in kinds
            and rank[0] <= self.env[name].ndim <= rank[1]
            and (dtype is None or self.env[name].dtype == dtype)
        ]
        if not names:
            return None
        if self.chance(0.5):
            names = sorted(names, key=lambda name: int(name[1:]))[-4:]
        return str(self.pick(names))

    def constant(self, array: Array) -> str:
        name = self.name()
        array = np.asarray(array)
        self.env[name] = array
        tensor = numpy_helper.from_array(array, name)
        scope = self.scope
        while scope.outer is not None and self.chance(0.5):
            scope = scope.outer
        if self.chance(0.25):
            scope.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            if scope.outer is None and self.chance(0.06):
                self.overridable.append(name)
            scope.initializers.append(tensor)
        if array.dtype != np.int64 or self.chance(0.3):
            scope.own.append(name)
        return name

    def ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    # Nodes

    def add(self, op: str, inputs: list[str | None], outputs: int = 1, **attributes: Any) -> list[str] | None:
        """Adds a node, if it runs."""
        names = [self.name() for _ in range(outputs)]
        node = helper.make_node(op, [name or "" for name in inputs], names, **attributes)
        got = self.evaluate(node, names)
        if got is None:
            return None
        self.env.update(zip(names, got, strict=True))
        self.scope.nodes.append(node)
        self.scope.own.extend(names)
        return names

    def evaluate(self, node: onnx.NodeProto, names: list[str]) -> list[Array] | None:
        used = [name for name in dict.fromkeys(_names_used(node)) if name in self.env]
        graph = helper.make_graph(
            [node],
            "g",
            [_info(name, self.env[name].dtype, None) for name in used],
            [onnx.ValueInfoProto(name=name) for name in names],
        )
        for name, info in zip(names, graph.output, strict=True):
            info.name = name
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        try:
            got = list(run(model.SerializeToString(), {name: self.env[name] for name in used}).values())
        except Exception:  # noqa: BLE001 - ONNX Runtime raises many kinds
            return None
        fits = all(isinstance(a, np.ndarray) and a.size <= 4000 and a.dtype in _ONNX for a in got)
        return got if fits else None

    def operand(self, like: str) -> str:
        """A second operand: another value, or a constant that broadcasts."""
        array = self.env[like]
        if self.chance(0.35):
            other = self.value(dtype=array.dtype)
            if other is not None:
                return other
        shape = list(array.shape)
        for axis in range(len(shape)):
            if self.chance(0.35):
                shape[axis] = 1
        while shape and self.chance(0.25):
            shape = shape[1:]
        if self.chance(0.12):
            shape = [int(self.pick([1, 2])), *shape]
        if self.chance(0.25):
            shape = []
        return self.constant(self.array(array.dtype, tuple(shape)))

    def step(self) -> None:
        """Adds a node or a few that belong together."""
        self.pick(_STEPS)(self)

    # The whole

    def build(self) -> Case | None:
        """The graph; None where nothing came of it."""
        for _ in range(int(self.rng.integers(1, 4))):
            self._add_input()
        for _ in range(6 * self.size):
            self.step()
            if len(self.scope.nodes) >= self.size:
                break
        made = [name for node in self.scope.nodes if node.op_type != "Constant" for name in node.output]
        if not made:
            return None
        used = {name for node in self.scope.nodes for name in _names_used(node)}
        outputs = [made[-1]]
        outputs += [name for name in made[:-1] if self.chance(0.8 if name not in used else 0.1)]
        static = not any(isinstance(dim, str) for dims in self.inputs.values() for dim in dims)
        infos = [
            _info(name, self.env[name].dtype, self.env[name].shape if static and self.chance(0.3) else None)
            for name in outputs
        ]
        inputs = [_info(name, self.env[name].dtype, dims) for name, dims in self.inputs.items()]
        inputs += [_info(name, self.env[name].dtype, self.env[name].shape) for name in self.overridable]
        graph = helper.make_graph(self.scope.nodes, "fuzzed", inputs, infos, self.scope.initializers)
        opsets = [helper.make_opsetid("", self.opset)]
        half = any(array.dtype == np.float16 for array in self.env.values())
        feeds = self._feeds()
        if half:
            del feeds["special"]
        return Case(helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds, half=half)

    def _add_input(self) -> None:
        dims: list[int | str] = []
        for _ in range(int(self.pick([0, 1, 2, 2, 3, 3, 4]))):
            size = int(self.pick([1, 2, 3, 4]))
            symbol = f"d{self.pick([0, 1, 2])}"
            dims.append(symbol if self.chance(0.3) else size)
            if isinstance(dims[-1], str):
                self.sizes.setdefault(symbol, size)
        name = self.name()
        shape = tuple(self.sizes[dim] if isinstance(dim, str) else dim for dim in dims)
        dtype = self.pick(_DTYPES) if self.inputs else np.float32
        self.env[name] = self._sample(dtype, shape, plain=True)
        self.inputs[name] = dims
        self.scope.own.append(name)

    def _sample(self, dtype: Any, shape: tuple[int, ...], *, plain: bool) -> Array:
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            made = np.asarray(self.rng.standard_normal(shape) * 2).astype(dtype)
            if not plain and made.size:
                flat = made.reshape(-1)
                for special in (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30 if dtype.itemsize > 2 else 1e4):
                    if self.chance(0.5):
                        flat[int(self.rng.integers(flat.size))] = special
            return made
        if dtype.kind == "b":
            return np.asarray(self.rng.integers(0, 2, shape)).astype(dtype)
        return np.asarray(self.rng.integers(0 if dtype.kind == "u" else -3, 4, shape)).astype(dtype)

    def _feeds(self) -> dict[str, dict[str, Array]]:
        feeds = {"base": {name: self.env[name] for name in self.inputs}}

        def sampled(sizes: dict[str, int], plain: bool) -> dict[str, Array]:
            return {
                name: self._sample(
                    self.env[name].dtype,
                    tuple(sizes[dim] if isinstance(dim, str) else dim for dim in dims),
                    plain=plain,
                )
                for name, dims in self.inputs.items()
            }

        feeds["again"] = sampled(self.sizes, True)
        feeds["special"] = sampled(self.sizes, False)
        if any(isinstance(dim, str) for dims in self.inputs.values() for dim in dims):
            for size in (0, 1, 2, 5):
                feeds[f"size {size}"] = sampled(dict.fromkeys(self.sizes, size), True)
        for name in self.overridable:
            array = self.env[name]
            feeds[f"override {name}"] = {**feeds["base"], name: self._sample(array.dtype, array.shape, plain=True)}
        return feeds


def _names_used(node: onnx.NodeProto) -> list[str]:
    """The names that a node and its subgraphs use."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                names.extend(_names_used(inner))
            names.extend(value.name for value in attribute.g.output)
    return names


def _info(name: str, dtype: Any, shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _ONNX[np.dtype(dtype)], None if shape is None else list(shape))


# Steps


def _unary(fuzz: Fuzzer) -> None:
    value = fuzz.value()
    op = fuzz.pick(_UNARY.split())
    if value is None:
        return
    attributes = {"alpha": float(fuzz.pick([0.1, 1.0, 0.0]))} if op in ("LeakyRelu", "Elu") else {}
    fuzz.add(op, [value], **attributes)


def _binary(fuzz: Fuzzer) -> None:
    value = fuzz.value()
    if value is None:
        return
    kind = fuzz.env[value].dtype.kind
    usual = fuzz.chance(0.7) and kind != "b"
    op = fuzz.pick(["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"] if usual else _BINARY.split())
    other = fuzz.operand(value)
    pair = [value, other] if fuzz.chance(0.65) else [other, value]
    if op in ("Max", "Min", "Sum", "Mean") and fuzz.chance(0.3):
        pair.append(fuzz.operand(value))
    fuzz.add(op, pair, **({"fmod": 1} if op == "Mod" and kind == "f" else {}))


def _same(fuzz: Fuzzer) -> None:
    """A node that stands there already, again."""
    nodes = [node for node in fuzz.scope.nodes if len(node.output) == 1 and node.op_type not in ("If", "Loop")]
    if not nodes:
        return
    node = onnx.NodeProto()
    node.CopyFrom(fuzz.pick(nodes))
    node.output[0] = fuzz.name()
    got = fuzz.evaluate(node, list(node.output))
    if got is not None:
        fuzz.env[node.output[0]] = got[0]
        fuzz.scope.nodes.append(node)
        fuzz.scope.own.append(node.output[0])


def _cast(fuzz: Fuzzer) -> None:
    value = fuzz.value()
    for _ in range(fuzz.pick([1, 1, 2])):
        if value is not None:
            made = fuzz.add("Cast", [value], to=int(fuzz.pick(_NUMBERS)))
            value = made[0] if made else None


def _axes(fuzz: Fuzzer, rank: int, most: int = 2) -> list[int]:
    axes = [int(axis) for axis in fuzz.rng.permutation(rank)[: int(fuzz.rng.integers(0, most + 1))]]
    return [axis - rank if fuzz.chance(0.4) else axis for axis in axes]


def _reduce(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(1, 5))
    if value is None:
        return
    op = fuzz.pick(_REDUCE.split())
    axes = _axes(fuzz, fuzz.env[value].ndim)
    keep = int(fuzz.chance(0.6))
    if fuzz.opset >= (13 if op == "ReduceSum" else 18):
        inputs = [value, fuzz.ints(*axes)] if axes or fuzz.chance(0.5) else [value]
        fuzz.add(op, inputs, keepdims=keep, **({"noop_with_empty_axes": 1} if fuzz.chance(0.3) else {}))
    else:
        fuzz.add(op, [value], keepdims=keep, **({"axes": axes} if axes else {}))


def _arg(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(1, 5))
    if value is not None:
        rank = fuzz.env[value].ndim
        fuzz.add(
            fuzz.pick(_ARG.split()), [value], axis=int(fuzz.rng.integers(-rank, rank)), keepdims=int(fuzz.chance(0.5))
        )


def _axis(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(1, 5))
    if value is None:
        return
    op = fuzz.pick(_AXIS_NODES.split())
    rank = fuzz.env[value].ndim
    axis = int(fuzz.rng.integers(-rank, rank))
    if op == "CumSum":
        fuzz.add(
            op, [value, fuzz.constant(np.array(axis))], exclusive=int(fuzz.chance(0.3)), reverse=int(fuzz.chance(0.3))
        )
    else:
        fuzz.add(op, [value], axis=axis)


def _transpose(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(0, 5))
    for _ in range(fuzz.pick([1, 1, 2, 3])):
        if value is None:
            return
        perm = [int(axis) for axis in fuzz.rng.permutation(fuzz.env[value].ndim)]
        made = fuzz.add("Transpose", [value], **({"perm": perm} if perm and fuzz.chance(0.8) else {}))
        value = made[0] if made else None
        if value is not None and fuzz.chance(0.3):
            made = fuzz.add(fuzz.pick(["Relu", "Neg", "Abs"]), [value])
            value = made[0] if made else None


def _target(fuzz: Fuzzer, size: int, rank: int) -> list[int]:
    """Dimensions that multiply to a size."""
    dims = []
    for _ in range(rank - 1):
        divisors = [d for d in range(1, max(size, 1) + 1) if size % d == 0] if size else [0, 1, 2]
        dim = int(fuzz.pick(divisors))
        dims.append(dim)
        size = size // dim if dim else 0
    return [*dims, size] if rank else []


def _reshape(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(0, 5))
    for _ in range(fuzz.pick([1, 2, 2])):
        if value is None:
            return
        array = fuzz.env[value]
        dims = _target(fuzz, array.size, int(fuzz.rng.integers(1, 5)))
        for axis in range(len(dims)):
            if axis < array.ndim and dims[axis] == array.shape[axis] and fuzz.chance(0.6):
                dims[axis] = 0
        if fuzz.chance(0.6):
            dims[int(fuzz.rng.integers(len(dims)))] = -1
        zero = fuzz.opset >= 14 and fuzz.chance(0.1)
        made = fuzz.add("Reshape", [value, fuzz.ints(*dims)], **({"allowzero": 1} if zero else {}))
        value = made[0] if made else None


def _squeeze(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(0, 4))
    for _ in range(fuzz.pick([1, 2])):
        if value is None:
            return
        array = fuzz.env[value]
        ones = [axis for axis, size in enumerate(array.shape) if size == 1]
        if ones and fuzz.chance(0.5):
            axes = [fuzz.pick([axis, axis - array.ndim]) for axis in ones if fuzz.chance(0.6)]
            op = "Squeeze"
        else:
            count = int(fuzz.pick([1, 1, 2]))
            rank = array.ndim + count
            axes = [int(axis) - (rank if fuzz.chance(0.4) else 0) for axis in fuzz.rng.permutation(rank)[:count]]
            op = "Unsqueeze"
        if fuzz.opset >= 13:
            made = fuzz.add(op, [value, fuzz.ints(*axes)] if axes or op == "Unsqueeze" else [value])
        else:
            made = fuzz.add(op, [value], **({"axes": axes} if axes else {}))
        value = made[0] if made else None


def _slice(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(1, 5))
    for _ in range(fuzz.pick([1, 2, 2])):
        if value is None:
            return
        rank = fuzz.env[value].ndim
        axes = _axes(fuzz, rank)
        if not axes:
            return
        starts = [int(fuzz.pick([0, 1, -1, -2, 2, INT64_MAX, -INT64_MAX])) for _ in axes]
        ends = [int(fuzz.pick([INT64_MAX, -1, 1, 2, 3, -INT64_MAX, 0])) for _ in axes]
        steps = [int(fuzz.pick([1, 1, 1, 2, -1, -2, 3])) for _ in axes]
        inputs: list[str | None] = [value, fuzz.ints(*starts), fuzz.ints(*ends), fuzz.ints(*axes)]
        if any(step != 1 for step in steps) or fuzz.chance(0.2):
            inputs.append(fuzz.ints(*steps))
        made = fuzz.add("Slice", inputs)
        value = made[0] if made else None


def _gather(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(1, 4))
    if value is None:
        return
    array = fuzz.env[value]
    axis = int(fuzz.rng.integers(-array.ndim, array.ndim))
    size = array.shape[axis]
    if size:
        count = fuzz.pick([(), (1,), (2,), (2, 1)])
        index = fuzz.rng.integers(-size, size, count)
        if fuzz.chance(0.15):
            index = np.arange(size)
        fuzz.add("Gather", [value, fuzz.constant(np.asarray(index, fuzz.pick([np.int64, np.int32])))], axis=axis)


def _concat(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(1, 4))
    if value is None:
        return
    array = fuzz.env[value]
    axis = int(fuzz.rng.integers(-array.ndim, array.ndim))
    parts = [value]
    for _ in range(int(fuzz.rng.integers(0, 3))):
        shape = list(array.shape)
        shape[axis] = int(fuzz.pick([1, 2] if fuzz.sizes else [0, 1, 2]))
        parts.append(value if fuzz.chance(0.3) else fuzz.constant(fuzz.array(array.dtype, tuple(shape))))
    fuzz.rng.shuffle(parts)
    fuzz.add("Concat", parts, axis=axis)


def _split(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(1, 4))
    if value is None:
        return
    array = fuzz.env[value]
    axis = int(fuzz.rng.integers(-array.ndim, array.ndim))
    size = array.shape[axis]
    first = int(fuzz.rng.integers(0, size + 1))
    parts = [first, size - first]
    if fuzz.opset >= 13:
        made = fuzz.add("Split", [value, fuzz.ints(*parts)], 2, axis=axis)
    else:
        made = fuzz.add("Split", [value], 2, axis=axis, split=parts)
    if made and fuzz.chance(0.5):
        fuzz.add("Concat", made if fuzz.chance(0.6) else made[::-1], axis=axis)


def _pad(fuzz: Fuzzer) -> None:
    value = fuzz.value(kinds="fi", rank=(1, 4))
    for _ in range(fuzz.pick([1, 2])):
        if value is None:
            return
        array = fuzz.env[value]
        pads = [int(fuzz.pick([0, 0, 1, 2, -1])) for _ in range(2 * array.ndim)]
        inputs: list[str | None] = [value, fuzz.ints(*pads)]
        mode = fuzz.pick(["constant"] * 4 + ["reflect", "edge"])
        if mode == "constant" and fuzz.chance(0.5):
            inputs.append(fuzz.constant(fuzz.array(array.dtype, ())))
        made = fuzz.add("Pad", inputs, mode=mode)
        value = made[0] if made else None


def _tile(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(1, 3))
    if value is not None:
        fuzz.add("Tile", [value, fuzz.ints(*(int(fuzz.pick([1, 1, 2])) for _ in fuzz.env[value].shape))])


def _expand(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(0, 4))
    if value is None:
        return
    dims = [fuzz.pick([1, size]) if size != 1 else fuzz.pick([1, 3]) for size in fuzz.env[value].shape]
    if fuzz.chance(0.2):
        dims = [int(fuzz.pick([1, 2])), *dims]
    fuzz.add("Expand", [value, fuzz.ints(*map(int, dims))])


def _where(fuzz: Fuzzer) -> None:
    value = fuzz.value()
    if value is None:
        return
    mask = fuzz.value(kinds="b")
    if mask is None or fuzz.chance(0.4):
        made = fuzz.add(fuzz.pick(["Greater", "Less", "Equal"]), [value, fuzz.operand(value)])
        mask = made[0] if made else fuzz.constant(np.array(fuzz.chance(0.5)))
    pair = [value, fuzz.operand(value)]
    fuzz.add("Where", [mask, *(pair if fuzz.chance(0.5) else pair[::-1])])


def _clip(fuzz: Fuzzer) -> None:
    value = fuzz.value(kinds="fi")
    for _ in range(fuzz.pick([1, 2])):
        if value is None:
            return
        dtype = fuzz.env[value].dtype
        bounds = [fuzz.constant(fuzz.array(dtype, ())) if fuzz.chance(0.75) else None for _ in range(2)]
        made = fuzz.add("Clip", [value, *bounds])
        value = made[0] if made else None
        if value is not None and fuzz.chance(0.4):
            made = fuzz.add("Relu", [value])
            value = made[0] if made else None


def _gemm(fuzz: Fuzzer) -> None:
    value = fuzz.value(kinds="f", rank=(2, 2))
    if value is None:
        return
    array = fuzz.env[value]
    transposed, other = int(fuzz.chance(0.3)), int(fuzz.chance(0.5))
    inner = array.shape[0 if transposed else 1]
    width = int(fuzz.pick([1, 2, 3]))
    weight = fuzz.constant(fuzz.array(array.dtype, (width, inner) if other else (inner, width)))
    inputs: list[str | None] = [value, weight]
    if fuzz.chance(0.7):
        inputs.append(fuzz.constant(fuzz.array(array.dtype, fuzz.pick([(), (width,), (1, width), (1,)]))))
    made = fuzz.add(
        "Gemm",
        inputs,
        transA=transposed,
        transB=other,
        alpha=float(fuzz.pick([1.0, 0.5])),
        beta=float(fuzz.pick([1.0, 2.0])),
    )
    _affine(fuzz, made, 1)


def _matmul(fuzz: Fuzzer) -> None:
    value = fuzz.value(kinds="f", rank=(1, 4))
    if value is not None and (inner := fuzz.env[value].shape[-1]):
        width = int(fuzz.pick([1, 2, 3]))
        made = fuzz.add("MatMul", [value, fuzz.constant(fuzz.array(fuzz.env[value].dtype, (inner, width)))])
        _affine(fuzz, made, -1)


def _conv(fuzz: Fuzzer) -> None:
    value = fuzz.value(kinds="f", rank=(3, 4), dtype=np.dtype(np.float32))
    if value is None:
        return
    array = fuzz.env[value]
    channels, spatial = array.shape[1], array.ndim - 2
    group = int(fuzz.pick([1, channels or 1]))
    out = group * int(fuzz.pick([1, 2]))
    transposed = fuzz.chance(0.3)
    kernel = [int(fuzz.pick([1, 2, 3])) for _ in range(spatial)]
    shape = [channels, out // group, *kernel] if transposed else [out, (channels or 1) // group, *kernel]
    inputs: list[str | None] = [value, fuzz.constant(fuzz.array(np.float32, tuple(shape)))]
    if fuzz.chance(0.5):
        inputs.append(fuzz.constant(fuzz.array(np.float32, (out,))))
    attributes: dict[str, Any] = {"group": group}
    if fuzz.chance(0.5):
        attributes["pads"] = [int(fuzz.pick([0, 1])) for _ in range(2 * spatial)]
    if fuzz.chance(0.3):
        attributes["strides"] = [int(fuzz.pick([1, 2]))] * spatial
    made = fuzz.add("ConvTranspose" if transposed else "Conv", inputs, **attributes)
    _affine(fuzz, made, 1)


def _affine(fuzz: Fuzzer, made: list[str] | None, axis: int) -> None:
    """What is folded into weights: BatchNormalization, and multiplication and addition by channel."""
    if not made or fuzz.chance(0.3):
        return
    value = made[0]
    array = fuzz.env[value]
    size = array.shape[axis]
    if fuzz.chance(0.4) and array.ndim > 1 and axis == 1:
        vectors = [fuzz.constant(fuzz.array(array.dtype, (size,))) for _ in range(3)]
        spread = fuzz.constant(
            np.abs(fuzz.rng.standard_normal(size)).astype(array.dtype) + np.asarray(0.1, array.dtype)
        )
        fuzz.add("BatchNormalization", [value, *vectors, spread])
        return
    shape = [1] * array.ndim
    shape[axis] = size
    while shape and shape[0] == 1 and fuzz.chance(0.4):
        shape = shape[1:]
    for op in ("Mul", "Add", "Sub", "Div"):
        if fuzz.chance(0.4):
            pair = [value, fuzz.constant(fuzz.array(array.dtype, fuzz.pick([tuple(shape), (), (1,)])))]
            answer = fuzz.add(op, pair if fuzz.chance(0.7) else pair[::-1])
            value = answer[0] if answer else value


def _pool(fuzz: Fuzzer) -> None:
    value = fuzz.value(kinds="f", rank=(3, 4))
    if value is None:
        return
    spatial = fuzz.env[value].ndim - 2
    op = fuzz.pick(["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool"])
    attributes: dict[str, Any] = {}
    if not op.startswith("Global"):
        attributes = {"kernel_shape": [int(fuzz.pick([1, 2]))] * spatial}
        if fuzz.chance(0.3):
            attributes["pads"] = [int(fuzz.pick([0, 1])) for _ in range(2 * spatial)]
    fuzz.add(op, [value], 2 if op == "MaxPool" and fuzz.chance(0.2) else 1, **attributes)


def _dimension(fuzz: Fuzzer) -> str | None:
    """One dimension of a value, computed in the graph; a tensor of rank 1."""
    value = fuzz.value(rank=(1, 5))
    if value is None:
        return None
    rank = fuzz.env[value].ndim
    attributes = {}
    if fuzz.opset >= 15 and fuzz.chance(0.3):
        attributes = {"start": int(fuzz.rng.integers(-rank, rank))}
    shape = fuzz.add("Shape", [value], **attributes)
    if shape is None or not fuzz.env[shape[0]].size:
        return None
    size = fuzz.env[shape[0]].size
    index = int(fuzz.rng.integers(-size, size))
    if fuzz.chance(0.4):
        made = fuzz.add("Gather", [shape[0], fuzz.ints(index)])
    elif fuzz.chance(0.5):
        index %= size
        made = fuzz.add("Slice", [shape[0], fuzz.ints(index), fuzz.ints(index + 1)])
    else:
        made = fuzz.add("Gather", [shape[0], fuzz.constant(np.array(index))])
        if made and fuzz.chance(0.3):
            made = fuzz.add(
                fuzz.pick(["Add", "Mul", "Sub", "Div"]), [made[0], fuzz.constant(np.array(fuzz.pick([1, 2, -1])))]
            )
        if made and fuzz.opset >= 13:
            made = fuzz.add("Unsqueeze", [made[0], fuzz.ints(0)])
        elif made:
            made = fuzz.add("Unsqueeze", [made[0]], axes=[0])
    if made and fuzz.chance(0.25):
        made = fuzz.add(
            fuzz.pick(["Add", "Mul", "Sub", "Div", "Mod", "Max", "Min"]),
            [made[0], fuzz.ints(int(fuzz.pick([1, 2, 3])))],
        )
    return made[0] if made else None


def _shape_arithmetic(fuzz: Fuzzer) -> None:
    """A shape put together from dimensions, and used."""
    value = fuzz.value(rank=(1, 4))
    if value is None:
        return
    array = fuzz.env[value]
    kind = fuzz.pick(["Reshape", "Reshape", "Expand", "ConstantOfShape", "Slice", "Range", "Tile", "own"])
    if kind == "own":
        shape = fuzz.add("Shape", [value])
        other = fuzz.value(dtype=array.dtype)
        if shape and other:
            fuzz.add(fuzz.pick(["Reshape", "Expand"]), [other, shape[0]])
        return
    parts = [_dimension(fuzz) for _ in range(int(fuzz.rng.integers(1, 4)))]
    found = [part for part in parts if part is not None]
    if fuzz.chance(0.6):
        found.append(fuzz.ints(int(fuzz.pick([-1, 1, 2, 0]))))
    if not found:
        return
    fuzz.rng.shuffle(found)
    target = found[0]
    if len(found) > 1:
        made = fuzz.add("Concat", found, axis=0)
        target = made[0] if made else target
    held = fuzz.env[target]
    if held.size and (held.max() > 64 or held.min() < -64):
        return
    if kind == "ConstantOfShape":
        tensor = numpy_helper.from_array(fuzz.array(fuzz.pick(_DTYPES), (1,)))
        fuzz.add(kind, [target], **({"value": tensor} if fuzz.chance(0.8) else {}))
    elif kind == "Slice":
        fuzz.add(
            kind, [value, fuzz.ints(int(fuzz.pick([0, 1]))), found[0], fuzz.ints(int(fuzz.rng.integers(array.ndim)))]
        )
    elif kind == "Range":
        scalar = fuzz.add("Reshape", [found[0], fuzz.constant(np.zeros(0, np.int64))])
        if scalar:
            fuzz.add(kind, [fuzz.constant(np.array(0)), scalar[0], fuzz.constant(np.array(fuzz.pick([1, 2])))])
    else:
        fuzz.add(kind, [value, target])


def _layer_norm(fuzz: Fuzzer) -> None:
    value = fuzz.value(kinds="f", rank=(1, 4))
    if value is None:
        return
    dtype, rank = fuzz.env[value].dtype, fuzz.env[value].ndim
    axes = [fuzz.pick([-1, rank - 1])]

    def mean(of: str) -> str | None:
        if fuzz.opset >= 18:
            made = fuzz.add("ReduceMean", [of, fuzz.ints(*axes)])
        else:
            made = fuzz.add("ReduceMean", [of], axes=axes)
        return made[0] if made else None

    def chain(op: str, *inputs: str | None) -> str | None:
        if None in inputs:
            return None
        made = fuzz.add(op, list(inputs))
        return made[0] if made else None

    centred = chain("Sub", value, mean(value)) if fuzz.chance(0.6) else value
    if centred is None:
        return
    square = chain("Pow", centred, fuzz.constant(np.array(2, dtype)))
    variance = mean(square) if square else None
    eased = chain("Add", variance, fuzz.constant(np.array(1e-5, dtype)))
    normed = chain("Div", centred, chain("Sqrt", eased))
    size = fuzz.env[value].shape[-1]
    scaled = chain("Mul", normed, fuzz.constant(fuzz.array(dtype, fuzz.pick([(size,), (), (1, size)]))))
    chain("Add", scaled, fuzz.constant(fuzz.array(dtype, (size,))))


def _gelu(fuzz: Fuzzer) -> None:
    value = fuzz.value(kinds="f", rank=(1, 4))
    if value is None:
        return
    dtype = fuzz.env[value].dtype

    def constant(number: float) -> str:
        return fuzz.constant(np.array(number, dtype))

    made = fuzz.add("Div", [value, constant(2**0.5)])
    made = made and fuzz.add("Erf", made)
    made = made and fuzz.add("Add", [made[0], constant(1.0)])
    other = fuzz.add("Mul", [value, constant(0.5)])
    if made and other:
        fuzz.add("Mul", [other[0], made[0]])


def _sigmoid_product(fuzz: Fuzzer) -> None:
    value = fuzz.value(kinds="f")
    made = fuzz.add(fuzz.pick(["Sigmoid", "HardSigmoid", "Softplus"]), [value]) if value else None
    if value and made:
        fuzz.add("Mul", [value, made[0]])


def _quantize(fuzz: Fuzzer) -> None:
    value = fuzz.value(dtype=np.dtype(np.float32))
    if value is None or fuzz.opset < 13:
        return
    zero = fuzz.pick([np.uint8, np.int8])
    scale, point = (
        fuzz.constant(np.float32(fuzz.pick([0.1, 0.5, 1.0]))),
        fuzz.constant(np.array(fuzz.pick([0, 1]), zero)),
    )
    made = fuzz.add("QuantizeLinear", [value, scale, point])
    if made and fuzz.chance(0.3):
        made = fuzz.add("Transpose", made)
    made = made and fuzz.add("DequantizeLinear", [made[0], scale, point])
    if made and fuzz.chance(0.4):
        fuzz.add("QuantizeLinear", [made[0], scale, point])


def _misc(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(1, 4))
    if value is None:
        return
    array = fuzz.env[value]
    op = fuzz.pick(
        [
            "NonZero",
            "Size",
            "TopK",
            "Trilu",
            "OneHot",
            "GatherElements",
            "EyeLike",
            "DepthToSpace",
            "ReverseSequence",
            "Compress",
        ]
    )
    if op == "TopK":
        if array.shape[-1]:
            fuzz.add(op, [value, fuzz.ints(1)], 2)
    elif op == "OneHot":
        fuzz.add(op, [value, fuzz.ints(3), fuzz.constant(np.array([0, 1], np.float32))])
    elif op == "GatherElements":
        fuzz.add(op, [value, fuzz.constant(np.zeros(array.shape, np.int64))], axis=0)
    elif op == "DepthToSpace":
        fuzz.add(op, [value], blocksize=2)
    elif op == "Compress":
        fuzz.add(op, [value, fuzz.constant(fuzz.array(np.bool_, (array.shape[0],)))], axis=0)
    elif op != "ReverseSequence":
        fuzz.add(op, [value])


def _body(fuzz: Fuzzer, steps: int, dtype: Any = None) -> tuple[_Scope, str | None]:
    scope = fuzz.scope = _Scope(fuzz.scope)
    for _ in range(steps):
        fuzz.step()
    assert scope.outer is not None
    fuzz.scope = scope.outer
    made = [name for node in scope.nodes if node.op_type != "Constant" for name in node.output]
    fits = [name for name in made if dtype is None or fuzz.env[name].dtype == dtype]
    return scope, fits[-1] if fits else None


def _if(fuzz: Fuzzer) -> None:
    if fuzz.scope.outer is not None and fuzz.chance(0.7):
        return
    chosen = fuzz.chance(0.5)
    value = fuzz.value()
    if value is None:
        return
    if fuzz.chance(0.4):
        condition = fuzz.constant(np.array(chosen))
    else:
        made = fuzz.add("Size", [value])
        made = made and fuzz.add("Greater", [made[0], fuzz.constant(np.array(int(fuzz.pick([0, 2, 5]))))])
        if not made:
            return
        condition = made[0]
    then, first = _body(fuzz, int(fuzz.rng.integers(1, 4)))
    if first is None:
        return
    other, second = _body(fuzz, int(fuzz.rng.integers(1, 4)), fuzz.env[first].dtype)
    if second is None:
        return
    graphs = {
        key: helper.make_graph(scope.nodes, key, [], [_info(out, fuzz.env[out].dtype, None)], scope.initializers)
        for key, scope, out in (("then_branch", then, first), ("else_branch", other, second))
    }
    fuzz.add("If", [condition], **graphs)


def _loop(fuzz: Fuzzer) -> None:
    if fuzz.scope.outer is not None:
        return
    value = fuzz.value(kinds="fi")
    if value is None:
        return
    turn, going, held = fuzz.name(), fuzz.name(), fuzz.name()
    fuzz.env |= {turn: np.array(0), going: np.array(True), held: fuzz.env[value]}
    scope = fuzz.scope = _Scope(fuzz.scope)
    scope.own = [held, turn]
    same = fuzz.add("Identity", [going])
    for _ in range(int(fuzz.rng.integers(1, 5))):
        fuzz.step()
    carried = fuzz.add(
        fuzz.pick(["Add", "Mul", "Sub", "Max"]), [held, fuzz.constant(fuzz.array(fuzz.env[value].dtype, ()))]
    )
    fuzz.scope = scope.outer or fuzz.scope
    if not same or not carried:
        return
    made = [name for node in scope.nodes if node.op_type != "Constant" for name in node.output]
    stacked = fuzz.pick(made)
    body = helper.make_graph(
        scope.nodes,
        "body",
        [_info(turn, np.int64, []), _info(going, np.bool_, []), _info(held, fuzz.env[held].dtype, None)],
        [
            _info(same[0], np.bool_, []),
            _info(carried[0], fuzz.env[held].dtype, None),
            _info(stacked, fuzz.env[stacked].dtype, None),
        ],
        scope.initializers,
    )
    count, condition = fuzz.constant(np.array(fuzz.pick([0, 1, 2, 3]))), fuzz.constant(np.array(True))
    fuzz.add("Loop", [count, condition if fuzz.chance(0.7) else None, value], 2, body=body)


_STEPS = [_unary] * 5 + [_binary] * 7 + [_same] * 2 + [_cast] * 2 + [_reduce, _arg, _axis] + [_transpose] * 3
_STEPS += [_reshape] * 3 + [_squeeze] * 2 + [_slice] * 2 + [_gather] * 2 + [_concat] * 2 + [_split, _pad, _pad, _tile]
_STEPS += [_expand, _where, _where, _clip, _clip, _gemm, _gemm, _matmul, _conv, _conv, _pool, _layer_norm, _gelu]
_STEPS += [_sigmoid_product, _quantize, _misc, _if, _loop] + [_shape_arithmetic] * 4
