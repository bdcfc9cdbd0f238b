"""Steps of the fuzzer that move elements, and that compute shapes."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from fuzzer_arithmetic import some_axes
from fuzzer_core import DTYPES, Fuzzer

INT64_MAX = np.iinfo(np.int64).max


def transpose_step(fuzz: Fuzzer) -> None:
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


def reshape_step(fuzz: Fuzzer) -> None:
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


def squeeze_step(fuzz: Fuzzer) -> None:
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


def slice_step(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(1, 5))
    for _ in range(fuzz.pick([1, 2, 2])):
        if value is None:
            return
        rank = fuzz.env[value].ndim
        axes = some_axes(fuzz, rank)
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


def gather_step(fuzz: Fuzzer) -> None:
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


def concat_step(fuzz: Fuzzer) -> None:
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


def split_step(fuzz: Fuzzer) -> None:
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


def pad_step(fuzz: Fuzzer) -> None:
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


def tile_step(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(1, 3))
    if value is not None:
        fuzz.add("Tile", [value, fuzz.ints(*(int(fuzz.pick([1, 1, 2])) for _ in fuzz.env[value].shape))])


def expand_step(fuzz: Fuzzer) -> None:
    value = fuzz.value(rank=(0, 4))
    if value is None:
        return
    dims = [fuzz.pick([1, size]) if size != 1 else fuzz.pick([1, 3]) for size in fuzz.env[value].shape]
    if fuzz.chance(0.2):
        dims = [int(fuzz.pick([1, 2])), *dims]
    fuzz.add("Expand", [value, fuzz.ints(*map(int, dims))])


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


def shape_arithmetic_step(fuzz: Fuzzer) -> None:
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
        tensor = numpy_helper.from_array(fuzz.array(fuzz.pick(DTYPES), (1,)))
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


def misc_step(fuzz: Fuzzer) -> None:
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
