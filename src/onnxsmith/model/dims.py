"""Sizes for dynamic dimensions: what was asked for, else a default that is said aloud."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from onnxsmith.errors import TensorError
from onnxsmith.model.specs import Dim, TensorSpec, format_shape
from onnxsmith.records import did_you_mean

BATCH = 1
SEQUENCE = 128
IMAGE = 224
OTHER = 1

LARGEST = 2**63 - 1
"""The largest size that a model can write down."""

_CHANNELS = (1, 3, 4)
_BATCH_NAMES = (re.compile(r"(\w+_)?(batch|batch_?size|bs)"), re.compile("n"))
_EXPRESSION = re.compile(r"[\w\s()+*/-]+")
_SEQUENCE_WORDS = ("seq", "len", "time", "token", "frame", "step")
_IMAGE_WORDS = ("height", "width", "image_size", "img_size")


@dataclass(frozen=True)
class ResolvedDims:
    """A size for each dynamic dimension of a model's inputs.

    Attributes:
        sizes: By key: the dimension's name, or `input.axis` where it has none.
        defaulted: The keys that nobody asked for, and that do not follow from others.
        batch: The keys of the batch dimension: its names, or the first axes of the inputs where it has none; empty
            where the batch is fixed.
    """

    sizes: Mapping[str, int]
    defaulted: tuple[str, ...]
    batch: tuple[str, ...]

    def shape(self, spec: TensorSpec) -> tuple[int, ...]:
        """The shape of an input with every dimension a number.

        Raises:
            TensorError: The input's rank is unknown.
        """
        if spec.shape is None:
            raise TensorError(
                f"input '{spec.name}' has no declared rank, so no sample can be made for it.",
                f"Give it: --input {spec.name}=file.npy",
            )
        return tuple(
            dim if isinstance(dim, int) else self.sizes[dim_key(spec, axis, dim)] for axis, dim in enumerate(spec.shape)
        )

    def describe_defaults(self) -> str | None:
        """Which sizes are defaults, in words, or None."""
        if not self.defaulted:
            return None
        return "taken by default: " + ", ".join(f"{key}={self.sizes[key]}" for key in self.defaulted)


def dim_key(spec: TensorSpec, axis: int, dim: Dim) -> str:
    """A dynamic dimension's key: its name, or `input.axis`."""
    return dim if isinstance(dim, str) and dim else f"{spec.name}.{axis}"


def resolve_dims(
    inputs: Iterable[TensorSpec],
    asked: Mapping[str, int] | None = None,
    preferred: Mapping[str, int] | None = None,
) -> ResolvedDims:
    """Finds a size for each dynamic dimension.

    A name such as `past_length + 1` gets its size from the dimensions in it, where nobody asks for another.

    Args:
        inputs: The model's inputs.
        asked: Sizes by key; `batch` also names a batch dimension called otherwise. Each must exist.
        preferred: The same, but what does not exist is passed over (the configuration's `dims`).

    Raises:
        TensorError: A name that the model does not have, or a size below 1.
    """
    inputs = tuple(inputs)
    keys: dict[str, int] = {}
    for spec in inputs:
        for axis, dim in spec.dynamic_dims:
            keys.setdefault(dim_key(spec, axis, dim), _default(spec, axis, dim))
    batch = _batch_keys(inputs)
    given = {
        **_named(preferred or {}, keys, batch, inputs, strict=False),
        **_named(asked or {}, keys, batch, inputs, strict=True),
    }
    sizes = {**keys, **given}
    derived = {key: size for key in keys if key not in given and (size := _derive(key, sizes)) is not None}
    return ResolvedDims(
        {**sizes, **derived}, tuple(key for key in keys if key not in given and key not in derived), batch
    )


def _derive(name: str, sizes: Mapping[str, int]) -> int | None:
    """The value of a name that is a sum, difference, product or quotient of dimensions, at least 1; else None."""
    if name.isidentifier() or not _EXPRESSION.fullmatch(name):
        return None
    try:
        return max(1, _value(ast.parse(name, mode="eval").body, sizes))
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError):
        return None


_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
}


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Name(name):
            return sizes[name]
        case ast.Constant(int(number)):
            return number
        case ast.BinOp(left, kind, right):
            return int(_OPERATORS[type(kind)](_value(left, sizes), _value(right, sizes)))
    raise TypeError(node)


def _named(
    sizes: Mapping[str, int],
    keys: Mapping[str, int],
    batch: tuple[str, ...],
    inputs: tuple[TensorSpec, ...],
    *,
    strict: bool,
) -> dict[str, int]:
    result = {}
    for name, size in sizes.items():
        matching = [name] if name in keys else list(batch) if name == "batch" else []
        if not matching and strict:
            suggestion = did_you_mean(name, keys)
            raise TensorError(f"no dynamic dimension is called '{name}'.{suggestion}", _known(keys, inputs))
        if matching and size < 1:
            raise TensorError(f"dimension '{name}' is asked to be {size}; it must be at least 1.")
        if matching and size > LARGEST:
            raise TensorError(f"dimension '{name}' is asked to be {size}; a file holds {LARGEST} at most.")
        result.update(dict.fromkeys(matching, size))
    return result


def _known(keys: Mapping[str, int], inputs: tuple[TensorSpec, ...]) -> str:
    shapes = ", ".join(f"{spec.name}{format_shape(spec.shape)}" for spec in inputs)
    if not keys:
        return f"Every dimension is fixed: {shapes}."
    return f"The dynamic dimensions are: {', '.join(keys)}. The inputs are: {shapes}."


def _batch_keys(inputs: tuple[TensorSpec, ...]) -> tuple[str, ...]:
    """The dimensions that are named so where there are any, else the dynamic first axes of the inputs."""
    dims = [(spec, axis, dim) for spec in inputs for axis, dim in spec.dynamic_dims]
    for pattern in _BATCH_NAMES:
        named = [dim for _, _, dim in dims if isinstance(dim, str) and pattern.fullmatch(dim.lower())]
        if named:
            return tuple(dict.fromkeys(named))
    first = [dim_key(spec, axis, dim) for spec, axis, dim in dims if _is_batch_axis(spec.shape or (), axis)]
    return tuple(dict.fromkeys(first))


def _is_batch_axis(shape: tuple[Dim, ...], axis: int) -> bool:
    """Axis 0, or axis 1 of a recurrent state, whose axis 0 counts layers and directions."""
    return axis == 0 or (axis == 1 and len(shape) == 3 and isinstance(shape[0], int) and shape[0] > 1)


def _default(spec: TensorSpec, axis: int, dim: Dim) -> int:
    """A default size: 1 for a batch, 224 for an image's sides, 128 for a sequence, else 1."""
    shape = spec.shape or ()
    name = str(dim or "").lower()
    if any(word in name for word in _SEQUENCE_WORDS):
        return SEQUENCE
    if any(word in name for word in _IMAGE_WORDS) or _is_image_side(shape, axis):
        return IMAGE
    if "batch" in name or _is_batch_axis(shape, axis):
        return BATCH
    if axis == 1 and len(shape) in (2, 3):
        return SEQUENCE
    return OTHER


def _is_image_side(shape: tuple[Dim, ...], axis: int) -> bool:
    if len(shape) != 4:
        return False
    if isinstance(shape[3], int) and shape[3] in _CHANNELS and shape[1] not in _CHANNELS:
        return axis in (1, 2)
    return axis in (2, 3) and (not isinstance(shape[1], int) or shape[1] in _CHANNELS)
