"""Random graphs, valid by construction: each node is run as it is added; one that ONNX Runtime refuses is dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import onnx
from onnx import helper, numpy_helper

from graph_checks import run

Array = np.ndarray[Any, Any]
DTYPES = (np.float32,) * 6 + (np.int64,) * 3 + (np.float64, np.float16, np.int32, np.bool_, np.uint8, np.int8)
_SPECIAL = {
    "f": (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 6.0, np.inf, -np.inf, np.nan),
    "i": (0, 1, -1, 2, 3),
    "u": (0, 1, 2, 255),
    "b": (True, False),
}
_ONNX = {np.dtype(t): helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in set(DTYPES)}


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


class Scope:
    """The nodes of one graph."""

    def __init__(self, outer: Scope | None = None) -> None:
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

    steps: ClassVar[list[Callable[[Fuzzer], None]]] = []

    def __init__(self, seed: int, size: int | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.choice([11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]))
        self.size = size or int(self.rng.integers(5, 40))
        self.env: dict[str, Array] = {}
        self.scope = Scope()
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
            [value_info(name, self.env[name].dtype, None) for name in used],
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
        self.pick(self.steps)(self)

    # The whole

    def build(self) -> Case | None:
        """The graph; None where nothing came of it, or ONNX Runtime finds fault with it as a whole."""
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
            value_info(name, self.env[name].dtype, self.env[name].shape if static and self.chance(0.3) else None)
            for name in outputs
        ]
        inputs = [value_info(name, self.env[name].dtype, dims) for name, dims in self.inputs.items()]
        inputs += [value_info(name, self.env[name].dtype, self.env[name].shape) for name in self.overridable]
        graph = helper.make_graph(self.scope.nodes, "fuzzed", inputs, infos, self.scope.initializers)
        opsets = [helper.make_opsetid("", self.opset)]
        half = any(array.dtype == np.float16 for array in self.env.values())
        feeds = self._feeds()
        if half:
            del feeds["special"]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        try:
            run(model.SerializeToString(), feeds["base"])
        except Exception:  # noqa: BLE001 - ONNX Runtime raises many kinds
            return None
        return Case(model, feeds, half=half)

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
        dtype = self.pick(DTYPES) if self.inputs else np.float32
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


def value_info(name: str, dtype: Any, shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _ONNX[np.dtype(dtype)], None if shape is None else list(shape))
