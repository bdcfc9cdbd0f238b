"""The export of PyTorch modules. PyTorch itself is imported only when something is exported."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxsmith.config import OPSET_RECOMMENDED, Exporter, LimitsConfig, PyTorchConfig
from onnxsmith.errors import ExportError, InvalidModelError, OutputError
from onnxsmith.extras import require
from onnxsmith.model import Model, TensorSpec, analyse_native, staged_folder
from onnxsmith.model.specs import format_shape
from onnxsmith.model_exporter.batch_comparison import BatchComparison, compare_batches
from onnxsmith.model_exporter.chatter import quiet, reason
from onnxsmith.model_exporter.example_inputs import BATCH, ExampleInputs, make_example_inputs
from onnxsmith.model_exporter.factories import load_module
from onnxsmith.model_exporter.torch_exporters import write_onnx
from onnxsmith.model_exporter.torch_module import evaluating, outputs_of
from onnxsmith.records import Progress, Record, no_progress

if TYPE_CHECKING:
    import torch

    from onnxsmith.model_exporter.simple_cnn import SimpleCNN

__all__ = ["BatchComparison", "PyTorchExport", "PyTorchExporter", "SimpleCNN"]

logger = logging.getLogger(__name__)

_SIMPLE_CNN_SHAPE = (1, 1, 8, 8)
_OLDEST_GOOD_OPSET = 11
_NEWEST_COMMON_OPSET = 20


def __getattr__(name: str) -> Any:
    if name == "SimpleCNN":
        from onnxsmith.model_exporter.simple_cnn import SimpleCNN

        return SimpleCNN
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class PyTorchExport(Record):
    """An exported module.

    Attributes:
        path: The ONNX file.
        module: The module's class.
        exporter: Which of PyTorch's exporters made it.
        opset_asked: The opset asked for.
        opset: The opset in the file.
        node_count: Nodes, those of subgraphs included.
        parameter_count: Elements of the module's parameters.
        size_bytes: Bytes on disk, external data included.
        inputs: The inputs.
        outputs: The outputs; a shape that is not declared is the inferred one.
        dynamic_dims: The names of the inputs' dynamic dimensions.
        comparison: The outputs beside PyTorch's, a row for each size; empty where ONNX Runtime cannot run the model.
        warnings: What a user should know.
    """

    path: Path
    module: str
    exporter: Exporter
    opset_asked: int
    opset: int
    node_count: int
    parameter_count: int
    size_bytes: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    dynamic_dims: tuple[str, ...]
    comparison: tuple[BatchComparison, ...]
    warnings: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """True where the outputs were compared and agree at every size."""
        return bool(self.comparison) and all(row.agree for row in self.comparison)


class PyTorchExporter:
    """Exports a module, checks the model, and holds its outputs against PyTorch's.

    Args:
        config: Opset, exporter, names, dynamic dimensions, folding, batch sizes to compare at.
        limits: For the child processes that check and run the model.
        seed: Of made-up inputs, and of the random weights of a module that `config` names.
    """

    def __init__(self, config: PyTorchConfig, *, limits: LimitsConfig, seed: int = 0) -> None:
        self.config = config
        self.limits = limits
        self.seed = seed

    def export_from_config(
        self,
        path: str | Path,
        progress: Progress = no_progress,
        example_inputs: torch.Tensor | Sequence[torch.Tensor] | Mapping[str, torch.Tensor] | None = None,
    ) -> PyTorchExport:
        """Exports the module that the configuration names: `module`, with `state_dict`.

        Raises:
            ExportError: The module cannot be made, or as for `export`.
        """
        if self.config.module is None:
            raise ExportError(
                "export.pytorch.module names no module.",
                "Name one as package.module:factory, or call export() with a module, such as that of train_or_reuse().",
            )
        module = load_module(self.config.module, self.config.state_dict, self.seed)
        return self.export(module, path, example_inputs, progress)

    def export(
        self,
        module: torch.nn.Module,
        path: str | Path,
        example_inputs: torch.Tensor | Sequence[torch.Tensor] | Mapping[str, torch.Tensor] | None = None,
        progress: Progress = no_progress,
    ) -> PyTorchExport:
        """Exports a module in evaluation mode; afterwards it has its own mode again.

        The file appears when everything is done, and not before. Outputs that differ from PyTorch's are no error:
        `comparison` and `warnings` tell of them.

        Args:
            module: The module.
            path: Where the ONNX file goes; weights over 2 GB go to `<name>.data` beside it.
            example_inputs: The inputs, batch first: one tensor, several, or a tensor for each of `forward`'s keywords;
                None makes them by `config.input_shapes`.
            progress: Told of the steps.

        Raises:
            ExportError: The inputs do not fit, the module fails on them, or it does not export.
            OutputError: The file cannot be written.
            MissingExtraError: PyTorch is not installed.
            RuntimeFailure: ONNX's checker crashed, or passed a limit.
        """
        require("torch", purpose="to export from PyTorch")
        path = Path(path)
        if path.is_dir():
            raise OutputError(f"{path}: is a folder; name a file in it.")
        shapes = self._shapes(module) if example_inputs is None else ()
        inputs = make_example_inputs(module, example_inputs, self.config, shapes, self.seed)
        with evaluating(module), staged_folder(path.absolute().parent) as staging:
            staged = staging / path.name
            progress("exporting", 0, 3)
            exporter_warnings = self._write(module, inputs, staged)
            progress("checking", 1, 3)
            model, outputs = self._check(staged, module)
            progress("comparing", 2, 3)
            comparison, differences = compare_batches(
                module, inputs, staged, self.config.verify_batch_sizes, self.limits
            )
            warnings = (*self._opset_warnings(model.opset), *inputs.fixed, *exporter_warnings, *differences)
            result = PyTorchExport(
                path=path,
                module=type(module).__name__,
                exporter=self.config.exporter,
                opset_asked=self.config.opset,
                opset=model.opset,
                node_count=sum(1 for _ in model.nodes()),
                parameter_count=sum(parameter.numel() for parameter in module.parameters()),
                size_bytes=model.size_bytes,
                inputs=model.inputs,
                outputs=outputs,
                dynamic_dims=tuple(
                    dict.fromkeys(str(dim) for spec in model.inputs for _, dim in spec.dynamic_dims if dim is not None)
                ),
                comparison=comparison,
                warnings=tuple(warning.replace(str(staged), str(path)) for warning in warnings),
            )
        _log(result)
        progress("exported", 3, 3)
        return result

    def _shapes(self, module: torch.nn.Module) -> tuple[tuple[int, ...], ...]:
        from onnxsmith.model_exporter.simple_cnn import SimpleCNN

        if self.config.input_shapes:
            return self.config.input_shapes
        if isinstance(module, SimpleCNN):
            return (_SIMPLE_CNN_SHAPE,)
        raise ExportError(
            f"the shapes of {type(module).__name__}'s inputs are not known.",
            "Give a shape for each input (--input-shape 1,3,224,224), or example inputs.",
        )

    def _write(self, module: torch.nn.Module, inputs: ExampleInputs, target: Path) -> tuple[str, ...]:
        """Exports to `target`. Returns the exporter's warnings."""
        name = type(module).__name__
        try:
            with quiet():
                outputs = outputs_of(module, inputs, inputs.traced_sizes)
        except ExportError:
            raise
        except Exception as error:
            shapes = (
                f"{input_name}{format_shape(tuple(tensor.shape))}"
                for input_name, tensor in zip(inputs.names, inputs.resized(inputs.traced_sizes), strict=True)
            )
            fixed = ", or keep the batch fixed (dynamic: none)" if BATCH in inputs.traced_sizes else ""
            raise ExportError(
                f"{name} fails on its example inputs, before any export: {reason(error)}",
                f"It was called with {', '.join(shapes)}. Check the inputs' shapes and dtypes{fixed}.",
            ) from error
        output_names = self._output_names(inputs, [label for label, _ in outputs], name)
        try:
            with quiet() as heard:
                write_onnx(module, inputs, output_names, self.config, target)
        except OSError:
            raise
        except Exception as error:
            other = "dynamo" if self.config.exporter == "torchscript" else "torchscript"
            raise ExportError(
                f"{name} does not export with PyTorch's {self.config.exporter} exporter: {reason(error)}",
                f"Try the other exporter ({other}), another opset, or fixed shapes (dynamic: none). Control flow that "
                "depends on data, and operators that ONNX lacks, must be written otherwise.",
            ) from error
        return tuple(heard.warnings)

    def _output_names(self, inputs: ExampleInputs, labels: Sequence[str], module: str) -> tuple[str, ...]:
        """The names asked for; where those are the default and do not fit, the outputs' own labels."""
        asked = self.config.output_names
        if not labels:
            raise ExportError(f"{module} returns no tensor.")
        if len(asked) == len(labels):
            names = asked
        elif asked == PyTorchConfig.model_fields["output_names"].default:
            names = tuple(f"output_{label}" if label in inputs.names else label for label in labels)
        else:
            raise ExportError(
                f"{module} has {len(labels)} outputs, and there are {len(asked)} output names: {', '.join(asked)}.",
                f"Give a name for each output; they are: {', '.join(labels)}.",
            )
        every = (*inputs.names, *names)
        if len(set(every)) < len(every):
            raise ExportError(f"the names of the inputs and outputs are not all different: {', '.join(every)}.")
        return names

    def _check(self, staged: Path, module: torch.nn.Module) -> tuple[Model, tuple[TensorSpec, ...]]:
        """Checks the model. Returns it, and its outputs with what shape inference filled in."""
        model = Model.load(staged)
        try:
            analysis = analyse_native(model, self.limits)
        except InvalidModelError as error:
            raise ExportError(
                f"PyTorch's {self.config.exporter} exporter made an invalid model of {type(module).__name__}: "
                f"{error.message.removeprefix(f'{staged}: not a valid model: ')}",
                "Try the other exporter, or another opset.",
            ) from error
        inferred = analysis.shapes[0]
        outputs = (
            spec.model_copy(update={"shape": inferred.get(spec.name)}) if spec.shape is None else spec
            for spec in model.outputs
        )
        return model, tuple(outputs)

    def _opset_warnings(self, opset: int) -> tuple[str, ...]:
        asked = self.config.opset
        warnings = []
        if asked < _OLDEST_GOOD_OPSET:
            warnings.append(
                f"opset {asked} is below {_OLDEST_GOOD_OPSET}: it lacks Resize and Range as models use them; "
                f"{OPSET_RECOMMENDED} is recommended"
            )
        if asked > _NEWEST_COMMON_OPSET:
            warnings.append(f"opset {asked} is above {_NEWEST_COMMON_OPSET}: check that your runtime supports it")
        if opset != asked:
            warnings.append(f"opset {asked} was asked for, and the {self.config.exporter} exporter made opset {opset}")
        return tuple(warnings)


def _log(result: PyTorchExport) -> None:
    logger.info(
        "exported %s with the %s exporter to %s: opset %d, %d nodes, inputs %s, outputs %s",
        result.module, result.exporter, result.path, result.opset, result.node_count,
        "; ".join(f"{spec.name}: {spec}" for spec in result.inputs),
        "; ".join(f"{spec.name}: {spec}" for spec in result.outputs),
    )  # fmt: skip
    for row in result.comparison:
        logger.info(
            "beside PyTorch at batch %s: largest error %.3g, %s",
            row.batch_size, row.max_abs_error, "agrees" if row.agree else "DIFFERS",
        )  # fmt: skip
    for warning in result.warnings:
        logger.warning("%s: %s", result.path, warning)
