"""PyTorch's two exporters behind one function."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from onnxsmith.config import PyTorchConfig
from onnxsmith.model import Model
from onnxsmith.model_exporter.example_inputs import ExampleInputs

if TYPE_CHECKING:
    import torch


def write_onnx(
    module: torch.nn.Module,
    inputs: ExampleInputs,
    output_names: tuple[str, ...],
    config: PyTorchConfig,
    target: Path,
) -> None:
    """Exports a module with the exporter of `config`; weights over 2 GB go to `<name>.data` beside it.

    Without constant folding both exporters also leave Conv and BatchNorm apart.

    Raises:
        Exception: Whatever the exporter raised.
    """
    export = _torchscript if config.exporter == "torchscript" else _dynamo
    export(module, inputs, output_names, config, target)


def _torchscript(
    module: torch.nn.Module,
    inputs: ExampleInputs,
    output_names: tuple[str, ...],
    config: PyTorchConfig,
    target: Path,
) -> None:
    import torch

    args, kwargs = inputs.arguments(inputs.resized(inputs.traced_sizes))
    raw = target.parent / "raw"
    raw.mkdir()
    torch.onnx.export(
        module,
        args,
        str(raw / target.name),
        kwargs=kwargs,
        input_names=list(inputs.names),
        output_names=list(output_names),
        opset_version=config.opset,
        dynamic_axes={name: axes for name, axes in zip(inputs.names, inputs.dynamic, strict=True) if axes},
        do_constant_folding=config.constant_folding,
        dynamo=False,
    )
    if len(list(raw.iterdir())) == 1:
        (raw / target.name).replace(target)
    else:
        # Above 2 GB it writes a file for each tensor.
        Model.load(raw / target.name).save(target, external_data=True)
    shutil.rmtree(raw)


def _dynamo(
    module: torch.nn.Module,
    inputs: ExampleInputs,
    output_names: tuple[str, ...],
    config: PyTorchConfig,
    target: Path,
) -> None:
    import torch

    args, kwargs = inputs.arguments(inputs.resized(inputs.traced_sizes))
    shapes = inputs.dynamic if inputs.keys is None else dict(zip(inputs.keys, inputs.dynamic, strict=True))
    program = torch.onnx.export(
        module,
        args,
        kwargs=kwargs,
        input_names=list(inputs.names),
        output_names=list(output_names),
        opset_version=config.opset,
        dynamic_shapes=shapes if any(inputs.dynamic) else None,
        optimize=config.constant_folding,
        dynamo=True,
        verbose=False,
    )
    program.save(str(target))
