"""A pass of another package: x / 4 becomes x * 0.25."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnxsmith import Editor, RulePass


@dataclass(frozen=True)
class ExactReciprocal(RulePass):
    """Division by a constant becomes multiplication, where that keeps every bit.

    The reciprocal of a power of two is a power of two, and then x / c and x * (1 / c) are one number, rounded alike;
    that holds for NaN, infinities and -0.0 too. Other divisors are left alone, with the reason.

    Attributes:
        most_elements: A constant with more elements than this is not read.
    """

    name: ClassVar[str] = "exact-reciprocal"
    exact: ClassVar[bool] = True
    operators: ClassVar[frozenset[str]] = frozenset({"Div"})

    most_elements: int = 1024

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Looks at one Div."""
        dividend, divisor = node.inputs
        if not editor.is_constant(divisor) or editor.dtype(divisor) not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
            return False  # not the pattern: nothing to say
        tensor = editor.tensor(divisor)
        if tensor is None or tensor.size > self.most_elements:
            return editor.decline(node, f"its divisor has more than {self.most_elements} elements")
        numbers = editor.array(divisor)
        mantissa, _ = np.frexp(numbers)
        if not np.all(np.abs(mantissa) == 0.5):
            return editor.decline(node, "its divisor is no power of two, whose reciprocal would be exact")
        smallest = np.finfo(numbers.dtype).tiny
        if np.any(np.abs(numbers) < smallest) or np.any(np.abs(numbers) > 1 / smallest):
            return editor.decline(node, "its divisor or the reciprocal of it is no normal number")
        reciprocal = np.asarray(1 / numbers, numbers.dtype)
        editor.replace_node(node, "Mul", [dividend, editor.constant(reciprocal, "reciprocal")])
        return True
