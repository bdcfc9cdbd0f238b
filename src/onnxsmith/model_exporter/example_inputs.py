"""Example inputs for a PyTorch module: what it is traced with, and the same at other sizes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnxsmith.config import Dynamic, PyTorchConfig
from onnxsmith.errors import ExportError
from onnxsmith.records import did_you_mean

if TYPE_CHECKING:
    import torch

BATCH = "batch_size"

_TRACED_BATCH = 2
"""The least batch to trace with where the batch is dynamic: a size of 1 invites both exporters to fix it."""

_FLOATS = ("float32", "float16", "bfloat16", "float64")
_INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
_DTYPES = (*_FLOATS, *_INTEGERS, "bool")


@dataclass(frozen=True)
class ExampleInputs:
    """The inputs of a module, in order.

    Attributes:
        names: A name for each, as the exported model has it.
        tensors: A tensor for each.
        keys: The keywords that `forward` takes them by, or None where they are positional.
        dynamic: For each, the name of each axis that stays dynamic.
        batch: The batch that was asked for, or None where no input has one. The tensors may have more rows.
        fixed: Inputs whose first dimension is not the batch, in words.
    """

    names: tuple[str, ...]
    tensors: tuple[torch.Tensor, ...]
    keys: tuple[str, ...] | None
    dynamic: tuple[dict[int, str], ...]
    batch: int | None
    fixed: tuple[str, ...]

    @property
    def traced_sizes(self) -> dict[str, int]:
        """The size to trace with of each dynamic dimension."""
        sizes = {
            name: tensor.shape[axis]
            for tensor, axes in zip(self.tensors, self.dynamic, strict=True)
            for axis, name in axes.items()
        }
        if BATCH in sizes and self.batch is not None:
            sizes[BATCH] = max(self.batch, _TRACED_BATCH)
        return sizes

    def resized(self, sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
        """Copies with other sizes of dynamic dimensions: rows are cut off, or repeat in turn."""
        import torch

        result = []
        for tensor, axes in zip(self.tensors, self.dynamic, strict=True):
            copy = tensor.clone()
            for axis, name in axes.items():
                index = torch.arange(sizes.get(name, tensor.shape[axis]), device=tensor.device) % tensor.shape[axis]
                copy = copy.index_select(axis, index)
            result.append(copy)
        return tuple(result)

    def arguments(self, tensors: tuple[torch.Tensor, ...]) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
        """Positional and keyword arguments for `forward`."""
        return (tensors, {}) if self.keys is None else ((), dict(zip(self.keys, tensors, strict=True)))


def make_example_inputs(
    module: torch.nn.Module, given: object, config: PyTorchConfig, shapes: Sequence[tuple[int, ...]], seed: int
) -> ExampleInputs:
    """The example inputs of an export.

    Args:
        module: The module.
        given: A tensor, a sequence of tensors, or a mapping from `forward`'s keywords to tensors; None makes them by
            `shapes`: standard normal, or 0 and 1 for integers, or ones where the name says mask.
        config: Names, dtypes and dynamic dimensions.
        shapes: A shape for each input where none are given.
        seed: Of made-up inputs.

    Raises:
        ExportError: Shapes, dtypes or names do not fit together, or something given is not a tensor.
    """
    import torch

    keys = None
    if given is None:
        names = _names(config.input_names, len(shapes), None, module)
        tensors = _made_up(names, shapes, config, seed)
    else:
        if isinstance(given, Mapping):
            # Both exporters write the inputs in the order of forward's parameters.
            order = _parameter_names(module)
            keys = tuple(sorted(map(str, given), key=lambda key: order.index(key) if key in order else len(order)))
            values = tuple(given[key] for key in keys)
        else:
            values = (given,) if isinstance(given, torch.Tensor) else tuple(given)  # type: ignore[arg-type]  # torch is untyped here
        for value in values:
            if not isinstance(value, torch.Tensor):
                raise ExportError(
                    f"an example input is a {type(value).__name__}, and must be a tensor.",
                    "Wrap the module in one that takes tensors only.",
                )
        names, tensors = _names(config.input_names, len(values), keys, module), values
    parameter = next(module.parameters(), None)
    tensors = tuple(tensor.detach().to(tensor.device if parameter is None else parameter.device) for tensor in tensors)
    dynamic, fixed = _dynamic_axes(names, tensors, config.dynamic)
    asked = shapes if given is None else [tuple(tensor.shape) for tensor in tensors]
    batch = next((shape[0] for shape in asked if shape), None)
    return ExampleInputs(names, tensors, keys, dynamic, batch, fixed)


def _names(
    asked: tuple[str, ...], count: int, keys: tuple[str, ...] | None, module: torch.nn.Module
) -> tuple[str, ...]:
    """The names asked for; where those are the default and do not fit, the keywords or the parameters of `forward`."""
    default = asked == PyTorchConfig.model_fields["input_names"].default
    if default and keys is not None:
        return keys
    if len(asked) == count:
        names = asked
    elif default:
        parameters = _parameter_names(module)
        names = parameters[:count] if len(parameters) >= count else tuple(f"input_{i}" for i in range(count))
    else:
        raise ExportError(
            f"there are {count} inputs and {len(asked)} input names: {', '.join(asked)}.", "Give a name for each input."
        )
    if len(set(names)) < len(names):
        raise ExportError(f"the input names are not all different: {', '.join(names)}.")
    return names


def _parameter_names(module: torch.nn.Module) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    )


def _made_up(
    names: tuple[str, ...], shapes: Sequence[tuple[int, ...]], config: PyTorchConfig, seed: int
) -> tuple[torch.Tensor, ...]:
    import torch

    dtypes = config.input_dtypes or ("float32",) * len(shapes)
    if len(dtypes) != len(shapes):
        raise ExportError(f"there are {len(shapes)} input shapes and {len(dtypes)} dtypes.", "Give one for each input.")
    rows = max(config.verify_batch_sizes) if config.dynamic != "none" else 1
    batch = next((shape[0] for shape in shapes if shape), None)
    generator = torch.Generator().manual_seed(seed)
    tensors = []
    for name, shape, dtype in zip(names, shapes, dtypes, strict=True):
        if any(size < 1 for size in shape):
            raise ExportError(f"input '{name}' has the shape {list(shape)}; every dimension must be at least 1.")
        # More rows than are asked for, so that a larger batch need not repeat any.
        size = (max(shape[0], rows), *shape[1:]) if shape and shape[0] == batch else shape
        tensors.append(_random(name, size, dtype, generator))
    return tuple(tensors)


def _random(name: str, shape: tuple[int, ...], dtype: str, generator: torch.Generator) -> torch.Tensor:
    import torch

    if dtype not in _DTYPES:
        raise ExportError(
            f"input '{name}' is to have the dtype '{dtype}', which is unknown.{did_you_mean(dtype, _DTYPES)}",
            f"The dtypes are: {', '.join(_DTYPES)}.",
        )
    target = getattr(torch, dtype)
    if dtype in _FLOATS:
        return torch.randn(shape, generator=generator).to(target)
    if "mask" in name.lower():
        return torch.ones(shape, dtype=target)
    return torch.randint(0, 2, shape, generator=generator).to(target)


def _dynamic_axes(
    names: tuple[str, ...], tensors: tuple[torch.Tensor, ...], dynamic: Dynamic
) -> tuple[tuple[dict[int, str], ...], tuple[str, ...]]:
    """The dynamic axes of each input, and the inputs whose first axis is not the batch, in words."""
    if dynamic == "none":
        return tuple({} for _ in tensors), ()
    batch = next((tensor.shape[0] for tensor in tensors if tensor.ndim), None)
    image: tuple[int, ...] | None = None
    result, fixed = [], []
    for name, tensor in zip(names, tensors, strict=True):
        axes = {}
        if tensor.ndim and tensor.shape[0] == batch:
            axes[0] = BATCH
        else:
            fixed.append(f"input '{name}' stays fixed at {list(tensor.shape)}: its first dimension is not the batch")
        if dynamic == "batch_and_image" and tensor.ndim == 4:
            size = tuple(tensor.shape[2:])
            image = image or size
            prefix = "" if size == image else f"{name}_"
            axes |= {2: f"{prefix}height", 3: f"{prefix}width"}
        result.append(axes)
    return tuple(result), tuple(fixed)
