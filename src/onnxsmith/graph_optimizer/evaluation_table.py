"""The table of operators that NumPy evaluates here, with the very values that ONNX Runtime has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir


class NotHere(Exception):  # noqa: N818 - an answer, not an error
    """A case that is left to ONNX Runtime."""


class Call:
    """A node and the contents of its inputs.

    Attributes:
        op_type: Its operator.
        opset: The version of the default domain.
        given: How many inputs it has.
        count: How many outputs it has.
    """

    def __init__(self, node: ir.Node, inputs: Sequence[np.ndarray | None], opset: int) -> None:
        self.op_type = node.op_type
        self.opset = opset
        self.given = len(inputs)
        self.count = len(node.outputs)
        self._attributes = node.attributes
        self._inputs = inputs

    def has(self, index: int) -> bool:
        """Whether an input is given."""
        return index < len(self._inputs) and self._inputs[index] is not None

    def input(self, index: int) -> np.ndarray:
        """An input that must be given."""
        found = self._inputs[index] if index < len(self._inputs) else None
        if found is None:
            raise NotHere
        return found

    def numbers(self, index: int) -> list[int]:
        """An input of whole numbers."""
        found: list[int] = self.input(index).reshape(-1).tolist()
        return found

    def integer(self, name: str, default: int | None) -> Any:
        """An attribute that is a whole number."""
        return self._attribute(name, default)

    def integers(self, name: str, default: Sequence[int] | None) -> Any:
        """An attribute that is a list of whole numbers."""
        return self._attribute(name, default)

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        found: str = self._attribute(name, default)
        return found

    def tensor(self, name: str) -> np.ndarray | None:
        """An attribute that is a tensor."""
        found = self._attribute(name, None)
        return None if found is None else found.numpy()

    def _attribute(self, name: str, default: Any) -> Any:
        attribute = self._attributes.get(name)
        if attribute is None:
            return default
        if attribute.is_ref():
            raise NotHere
        return attribute.value


Operator: TypeAlias = Callable[[Call], Sequence[np.ndarray]]

TABLE: dict[str, Operator] = {}
"""By operator of the default domain, the function that gives a node's outputs."""


def operator(*op_types: str) -> Callable[[Operator], Operator]:
    """Puts a function in the table."""

    def register(function: Operator) -> Operator:
        for op_type in op_types:
            TABLE[op_type] = function
        return function

    return register
