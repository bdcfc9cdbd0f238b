"""An exported model beside its PyTorch module, at several batch sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxsmith.config import LimitsConfig
from onnxsmith.errors import RuntimeFailure
from onnxsmith.inference_engine.ort_inference import run_model
from onnxsmith.model import Model
from onnxsmith.model.specs import format_shape
from onnxsmith.model_exporter.chatter import quiet, reason
from onnxsmith.model_exporter.comparison import Difference, difference
from onnxsmith.model_exporter.example_inputs import BATCH, ExampleInputs
from onnxsmith.model_exporter.torch_module import outputs_of, to_numpy

if TYPE_CHECKING:
    import torch

_OTHER_IMAGE = 32
"""What is added to an image's sides to compare at another size; networks that halve sizes want multiples of 32."""


class BatchComparison(Difference):
    """The exported model beside PyTorch on the same inputs, with ONNX Runtime's optimisations off.

    Attributes:
        batch_size: The batch, or None where no input has one.
        input_shapes: The shapes of the inputs.
    """

    batch_size: int | None
    input_shapes: tuple[tuple[int, ...], ...]


def compare_batches(
    module: torch.nn.Module,
    inputs: ExampleInputs,
    path: Path,
    batch_sizes: Sequence[int],
    limits: LimitsConfig,
) -> tuple[tuple[BatchComparison, ...], tuple[str, ...]]:
    """Runs a module and its export on the same inputs.

    Args:
        module: The module, in evaluation mode.
        inputs: Its example inputs.
        path: The exported model.
        batch_sizes: Where the batch is dynamic; where image sizes are, one more row has another image size.
        limits: For the child process that runs the model.

    Returns:
        A row for each size at which the module itself runs, none where ONNX Runtime runs the model at no size; and
        what is amiss, in words.
    """
    names = [spec.name for spec in Model.load(path).inputs]
    warnings = [
        f"input '{name}' is not used, and the exported model does not have it"
        for name in inputs.names
        if name not in names
    ]
    shapes, feeds, expected = [], [], []
    for sizes in _sizes(inputs, batch_sizes):
        tensors = inputs.resized(sizes)
        shape = tuple(tuple(tensor.shape) for tensor in tensors)
        try:
            with quiet():
                outputs = [array for _, array in outputs_of(module, inputs, sizes)]
        except Exception as error:  # noqa: BLE001 - a module may raise anything
            warnings.append(f"{type(module).__name__} itself fails on {_text(shape)}: {reason(error)}")
            continue
        arrays = dict(zip(inputs.names, map(to_numpy, tensors), strict=True))
        shapes.append(shape)
        feeds.append({name: arrays[name] for name in names})
        expected.append(outputs)
    answers = _run_each(path, feeds, limits)
    failures = [answer for answer in answers if isinstance(answer, RuntimeFailure)]
    if failures and len(failures) == len(answers):
        warnings.append(f"ONNX Runtime cannot run it, so its outputs were not compared: {failures[0].message}")
        return (), tuple(warnings)
    rows = []
    for shape, answer, outputs in zip(shapes, answers, expected, strict=True):
        if isinstance(answer, RuntimeFailure):
            distance = Difference(max_abs_error=math.inf, max_rel_error=math.inf, agree=False)
            warnings.append(f"ONNX Runtime fails on {_text(shape)}: {answer.message}")
        else:
            distance = difference([np.asarray(value) for value in answer.values()], outputs)
            if not distance.agree:
                warnings.append(f"the outputs differ from PyTorch's on {_text(shape)}: {_how(distance)}")
        batch = next((size[0] for size in shape if size), None)
        rows.append(BatchComparison(batch_size=batch, input_shapes=shape, **distance.model_dump()))
    if BATCH not in inputs.traced_sizes and inputs.batch is not None:
        warnings.append(f"the batch is fixed at {inputs.batch}, so the outputs were compared at that size only")
    return tuple(rows), tuple(warnings)


def _sizes(inputs: ExampleInputs, batch_sizes: Sequence[int]) -> list[dict[str, int]]:
    traced = inputs.traced_sizes
    rows = [{**traced, BATCH: batch} for batch in batch_sizes] if BATCH in traced else [traced]
    image = {name: size + _OTHER_IMAGE for name, size in traced.items() if name != BATCH}
    return [*rows, {**rows[0], **image}] if image else rows


def _run_each(
    path: Path, feeds: Sequence[Mapping[str, Any]], limits: LimitsConfig
) -> list[dict[str, Any] | RuntimeFailure]:
    """The outputs for each feed; where a run fails, each is tried alone to tell which."""
    if not feeds:
        return []
    try:
        return list(run_model(path, feeds, level="ORT_DISABLE_ALL", limits=limits))
    except RuntimeFailure as error:
        return [error] if len(feeds) == 1 else [_run_each(path, [feed], limits)[0] for feed in feeds]


def _how(distance: Difference) -> str:
    if math.isinf(distance.max_abs_error):
        return "in their number, their shapes, or where they are not finite"
    return f"the largest error is {distance.max_abs_error:.3g}, {distance.max_rel_error:.2g} of the largest output"


def _text(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(format_shape(shape) for shape in shapes)
