"""A PyTorch module as an exporter sees it: called in evaluation mode, its outputs a flat list of tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from onnxsmith.errors import ExportError
from onnxsmith.model_exporter.example_inputs import ExampleInputs

if TYPE_CHECKING:
    import torch


@contextlib.contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Puts a module in evaluation mode, without gradients; afterwards each submodule has its own mode again."""
    import torch

    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training


def outputs_of(
    module: torch.nn.Module, inputs: ExampleInputs, sizes: Mapping[str, int]
) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Calls a module on the example inputs at some sizes.

    Returns:
        Its output tensors in the order in which PyTorch's exporters write them, each with a label: a dict's key, or
        `output_0` and so on.

    Raises:
        ExportError: It returned something that is not made of tensors.
        Exception: Whatever the module raised.
    """
    args, kwargs = inputs.arguments(inputs.resized(sizes))
    return [(label, to_numpy(tensor)) for label, tensor in _flatten(module(*args, **kwargs))]


def _flatten(value: Any, label: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    import torch

    if isinstance(value, torch.Tensor):
        yield label or "output", value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flatten(item, f"{label}_{key}" if label else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _flatten(item, f"{label or 'output'}_{index}")
    elif value is not None:
        raise ExportError(
            f"forward returned a {type(value).__name__}; tensors, and tuples, lists and dicts of them, can be exported."
        )


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """A tensor as an array of the same dtype."""
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return np.asarray(tensor.float().numpy().astype(ml_dtypes.bfloat16))
    return np.asarray(tensor.numpy())
