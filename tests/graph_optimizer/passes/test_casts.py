"""A cast before a cast goes only where every value survives it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from algebra_helpers import left, reasons, run_pass

from onnxsmith.graph_optimizer.passes.casts import holds

PASS = "simplify-casts"
F, F16, BF16, D = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE
I8, U8, I32, I64 = ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT32, ir.DataType.INT64


@pytest.mark.parametrize(
    ("source", "middle", "target", "remain"),
    [
        ("float16", F, F16, ["Neg"]),
        ("float16", F, D, ["Cast", "Neg"]),
        ("int8", I32, I64, ["Cast", "Neg"]),
        ("int8", F, I8, ["Neg"]),
        ("int32", D, I32, ["Neg"]),
        ("int32", F, I32, ["Cast", "Cast", "Neg"]),
        ("int64", I32, I64, ["Cast", "Cast", "Neg"]),
        ("float", F16, F, ["Cast", "Cast", "Neg"]),
        ("float", I32, F, ["Cast", "Cast", "Neg"]),
        ("float", D, I32, ["Cast", "Cast", "Neg"]),
        ("bool", I64, F, ["Cast", "Neg"]),
        ("int32", D, I8, ["Cast", "Cast", "Neg"]),
    ],
)
def test_two_casts(source: str, middle: ir.DataType, target: ir.DataType, remain: list[str]) -> None:
    made = target.name.lower() if target != D else "double"
    text = (
        f"g ({source}[3] x) => ({made}[3] y) {{ a = Cast<to = {middle:d}>(x) b = Cast<to = {target:d}>(a) y = Neg(b) }}"
    )
    kind = np.dtype("float32" if source == "float" else source)
    sample = np.array([1, 0, 1] if source == "bool" else [-3, 0, 100], dtype=kind)
    operators, result = run_pass(PASS, text, x=sample)
    assert operators == remain
    assert bool(reasons(result)) == (remain.count("Cast") == 2)


def test_what_holds_what() -> None:
    assert holds(F, BF16)
    assert holds(F16, U8)
    assert holds(BF16, U8)
    assert not holds(BF16, F16)
    assert not holds(F16, BF16)
    assert not holds(U8, I8)
    assert not holds(ir.DataType.UINT64, I8)
    assert not holds(F, ir.DataType.INT4)


def test_the_first_stays_for_others() -> None:
    text = "g (int8[N] x) => (int32[N] a, int64[N] y) { a = Cast<to = 6>(x) b = Cast<to = 7>(a) y = Neg(b) }"
    assert left(PASS, text) == ["Cast", "Cast", "Neg"]


def test_cast_like() -> None:
    text = "g (float[N] x, int64[1] like) => (int64[N] y) { a = Abs(x) y = CastLike(a, like) }"
    assert left(PASS, text, x=np.array([1.5, -2], np.float32)) == ["Abs", "Cast"]
