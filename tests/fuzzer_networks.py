"""Steps of the fuzzer that networks are made of, with what is folded into them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzer_core import Fuzzer


def gemm_step(fuzz: Fuzzer) -> None:
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


def matmul_step(fuzz: Fuzzer) -> None:
    value = fuzz.value(kinds="f", rank=(1, 4))
    if value is not None and (inner := fuzz.env[value].shape[-1]):
        width = int(fuzz.pick([1, 2, 3]))
        made = fuzz.add("MatMul", [value, fuzz.constant(fuzz.array(fuzz.env[value].dtype, (inner, width)))])
        _affine(fuzz, made, -1)


def conv_step(fuzz: Fuzzer) -> None:
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


def pool_step(fuzz: Fuzzer) -> None:
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


def layer_norm_step(fuzz: Fuzzer) -> None:
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


def gelu_step(fuzz: Fuzzer) -> None:
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
