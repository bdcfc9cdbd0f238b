"""PyTorch's two exporters behind one function."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

    raw = target.parent / "raw"
    raw.mkdir()
    with _by_position(module, inputs.keys):
        torch.onnx.export(
            module,
            inputs.resized(inputs.traced_sizes),
            str(raw / target.name),
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


@contextlib.contextmanager
def _by_position(module: torch.nn.Module, keys: tuple[str, ...] | None) -> Iterator[None]:
    """Lets `forward` take just the inputs, by position.

    The TorchScript exporter fills in the default of every other parameter that it sees, and modules whose `forward` is
    decorated (those of transformers) then get some twice.
    """
    import torch

    if isinstance(module, torch.jit.ScriptModule):
        yield
        return
    own, forward = vars(module).get("forward"), module.forward

    def plain(*tensors: torch.Tensor) -> Any:
        return forward(*tensors) if keys is None else forward(**dict(zip(keys, tensors, strict=True)))

    module.forward = plain
    try:
        yield
    finally:
        del module.forward
        if own is not None:
            module.forward = own


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
