"""What a rule sees of a node, and the table in which rules stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic.dims import Dim

Shape: TypeAlias = tuple[Dim, ...]

PartialShape: TypeAlias = Sequence["Dim | None"]
"""What a rule gives: None for a size that it cannot tell."""

Element: TypeAlias = "Dim | float | None"
"""An element of a tensor; a float only where the tensor is of floats, None where it is not known."""

Contents: TypeAlias = tuple[Element, ...]
"""The elements of a small tensor in row-major order."""

LARGEST_CONTENTS = 64
"""How many elements a tensor may have for its contents to be followed."""


class Unknown(Exception):  # noqa: N818 - an answer, not an error
    """Something that a rule needs is not known."""


class Info:
    """What is known of a value.

    Attributes:
        dtype: The element type of a tensor.
        shape: The shape of a tensor.
        contents: Its elements, where it is a small tensor of numbers.
        other: The type of a value that is no tensor.
    """

    __slots__ = ("contents", "dtype", "other", "shape")

    def __init__(
        self,
        dtype: ir.DataType | None = None,
        shape: Shape | None = None,
        contents: Contents | None = None,
        other: ir.TypeProtocol | None = None,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.contents = contents
        self.other = other


NOTHING = Info()


class Call:
    """A node, and what is known of its inputs."""

    __slots__ = ("inputs", "node", "opset")

    def __init__(self, node: ir.Node, inputs: list[Info | None], opset: int) -> None:
        self.node = node
        self.inputs = inputs
        self.opset = opset

    def has(self, index: int) -> bool:
        """Whether an input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int) -> Info:
        """What is known of an input that must be given."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise Unknown
        return found

    def shape(self, index: int) -> Shape:
        """The shape of an input, or `Unknown`."""
        found = self.input(index).shape
        if found is None:
            raise Unknown
        return found

    def shape_or_none(self, index: int) -> Shape | None:
        """The shape of an input, or None."""
        return self.input(index).shape

    def contents(self, index: int) -> Contents:
        """The contents of an input, elements that are not known among them; or `Unknown`."""
        found = self.input(index).contents
        if found is None:
            raise Unknown
        return found

    def numbers(self, index: int) -> list[int]:
        """The contents of an input of whole numbers that are all known, or `Unknown`."""
        contents = self.contents(index)
        numbers = [number for number in contents if isinstance(number, int)]
        if len(numbers) < len(contents):
            raise Unknown
        return numbers

    def attribute(self, name: str, kind: ir.AttributeType, default: Any = None) -> Any:
        """An attribute's value; `Unknown` where it refers to a function's attribute or has another type."""
        found = self.node.attributes.get(name)
        if found is None:
            return default
        if found.type != kind or found.is_ref():
            raise Unknown
        return found.value

    def integer(self, name: str, default: int | None = None) -> Any:
        """An attribute that is a whole number."""
        return self.attribute(name, ir.AttributeType.INT, default)

    def integers(self, name: str, default: Sequence[int] | None = None) -> Any:
        """An attribute that is a list of whole numbers."""
        return self.attribute(name, ir.AttributeType.INTS, default)

    def text(self, name: str, default: str = "") -> str:
        """An attribute that is a text."""
        found: str = self.attribute(name, ir.AttributeType.STRING, default)
        return found

    def axis(self, rank: int, default: int | None = None, name: str = "axis") -> int:
        """An attribute that is an axis, counted from the front."""
        return from_front(self.integer(name, default), rank)

    def axes(self, rank: int, index: int, since: int) -> list[int] | None:
        """The axes, an input from opset `since` on and an attribute before; None where there are none."""
        listed = None if self.opset >= since else self.integers("axes")
        axes = self.numbers(index) if self.opset >= since and self.has(index) else listed
        return None if axes is None else [from_front(axis, rank) for axis in axes]


def from_front(axis: int | None, rank: int) -> int:
    """An axis counted from the front; `Unknown` where there is none such."""
    if axis is None or not -rank <= axis < rank:
        raise Unknown
    return axis + rank if axis < 0 else axis


DType: TypeAlias = "ir.DataType | int | Callable[[Call], ir.DataType | None]"
"""An output's element type: a fixed one, that of the input with this index, or what a function says."""


class Rule(NamedTuple):
    """How the outputs of an operator follow from its inputs.

    Attributes:
        shapes: Gives the outputs' shapes; None for one that it cannot tell.
        dtypes: The outputs' element types; further outputs are as the last one.
    """

    shapes: Callable[[Call], Sequence[PartialShape | None]]
    dtypes: tuple[DType, ...]


RULES: dict[str, Rule] = {}
CONTENTS: dict[str, Callable[[Call, Info], Sequence[Element]]] = {}
"""Gives the elements of a node's first output, whose dtype and shape are known."""

_Shapes: TypeAlias = Callable[[Call], "Sequence[PartialShape | None]"]
_Contents: TypeAlias = Callable[[Call, Info], "Sequence[Element]"]


def rule(*op_types: str, dtypes: DType | tuple[DType, ...] = 0) -> Callable[[_Shapes], _Shapes]:
    """Puts a function in the table as the shape rule of operators."""

    def register(function: _Shapes) -> _Shapes:
        for op_type in op_types:
            RULES[op_type] = Rule(function, dtypes if isinstance(dtypes, tuple) else (dtypes,))
        return function

    return register


def contents(*op_types: str) -> Callable[[_Contents], _Contents]:
    """Puts a function in the table as the one that evaluates operators."""

    def register(function: _Contents) -> _Contents:
        for op_type in op_types:
            CONTENTS[op_type] = function
        return function

    return register
