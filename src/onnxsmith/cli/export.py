"""`onnxsmith export pytorch` and `onnxsmith export sklearn`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxsmith.cli.common import (
    ConfigOption,
    FormatOption,
    OutputFormat,
    QuietOption,
    SetOption,
    VerboseOption,
    fail_gate,
    session,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


class Exporter(StrEnum):
    """PyTorch's exporters."""

    torchscript = "torchscript"
    dynamo = "dynamo"


class Dynamic(StrEnum):
    """Which dimensions stay dynamic."""

    batch = "batch"
    batch_and_image = "batch_and_image"
    none = "none"


OutputOption = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the model goes.")]
OpsetOption = Annotated[int | None, typer.Option("--opset", metavar="N", help="The opset; 17 is recommended.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Export a trained model to ONNX.", no_args_is_help=True, rich_markup_mode=None)
    group.command("pytorch")(pytorch)
    group.command("sklearn")(sklearn)
    app.add_typer(group, name="export")


def pytorch(
    output: OutputOption,
    module: Annotated[
        str | None,
        typer.Argument(
            metavar="[PACKAGE.MODULE:FACTORY]",
            help="What makes the torch.nn.Module; without it, SimpleCNN is trained on digits and exported.",
            show_default=False,
        ),
    ] = None,
    state_dict: Annotated[
        Path | None, typer.Option("--state-dict", metavar="FILE", help="Its weights, loaded weights-only.")
    ] = None,
    input_shapes: Annotated[
        list[str] | None,
        typer.Option(
            "--input-shape", metavar="N,C,H,W", help="The shape of an input, batch first; one for each input."
        ),
    ] = None,
    input_dtypes: Annotated[
        list[str] | None,
        typer.Option("--input-dtype", metavar="DTYPE", help="The dtype of an input; float32 by default."),
    ] = None,
    input_names: Annotated[
        list[str] | None, typer.Option("--input-name", metavar="NAME", help="The name of an input.")
    ] = None,
    output_names: Annotated[
        list[str] | None, typer.Option("--output-name", metavar="NAME", help="The name of an output.")
    ] = None,
    opset: OpsetOption = None,
    exporter: Annotated[
        Exporter | None,
        typer.Option("--exporter", help="torchscript traces; dynamo is torch.export.", show_default=False),
    ] = None,
    dynamic: Annotated[
        Dynamic | None, typer.Option("--dynamic", help="Which dimensions stay dynamic.", show_default=False)
    ] = None,
    constant_folding: Annotated[
        bool | None,
        typer.Option("--constant-folding/--no-constant-folding", help="Fold constants.", show_default=False),
    ] = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output_format: FormatOption = OutputFormat.text,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Export a PyTorch module, and compare its outputs with PyTorch's own."""
    prefix = "export.pytorch."
    flags = {
        f"{prefix}module": module,
        f"{prefix}state_dict": state_dict,
        f"{prefix}input_shapes": [_shape(text) for text in input_shapes] if input_shapes else None,
        f"{prefix}input_dtypes": input_dtypes,
        f"{prefix}input_names": input_names,
        f"{prefix}output_names": output_names,
        f"{prefix}opset": opset,
        f"{prefix}exporter": exporter.value if exporter else None,
        f"{prefix}dynamic": dynamic.value if dynamic else None,
        f"{prefix}constant_folding": constant_folding,
    }
    with session(
        config=config,
        assignments=assignments,
        output_format=output_format,
        verbose=verbose,
        quiet=quiet,
        flags=flags,
        title="exporting",
    ) as run:
        from onnxsmith import api

        source = _source_file(module)
        run.protect(output, inputs=[state_dict, source])
        result = api.export_pytorch(None, output, config=run.config, progress=run.progress)

        def rendered() -> list[RenderableType]:
            from onnxsmith.cli.render.exports import render_pytorch_export

            return render_pytorch_export(result)

        run.emit(result, rendered)
    if not all(row.agree for row in result.comparison):
        fail_gate(f"the outputs of {output} differ from PyTorch's.")


def _source_file(name: str | None) -> Path | None:
    """The file in the current folder that `package.module:factory` names, as far as the name tells."""
    return Path(name.partition(":")[0].replace(".", "/") + ".py") if name else None


def _shape(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"--input-shape {text}: write whole numbers with commas, for example 1,3,224,224"
        ) from None


def sklearn(
    output: OutputOption,
    estimator: Annotated[
        str | None,
        typer.Argument(
            metavar="[PACKAGE.MODULE:FACTORY | FILE]",
            help="What makes the fitted estimator, or a pickle of it; without it, the example pipeline is fitted.",
            show_default=False,
        ),
    ] = None,
    trust_pickle: Annotated[
        bool,
        typer.Option(
            "--trust-pickle", help="Load a pickle or joblib file. Loading one runs code from it: trusted files only."
        ),
    ] = False,
    sample: Annotated[
        Path | None, typer.Option("--sample", metavar="FILE", help="Rows to compare on, as a .npy file.")
    ] = None,
    opset: OpsetOption = None,
    zipmap: Annotated[
        bool | None,
        typer.Option("--zipmap/--no-zipmap", help="Probabilities as maps instead of a tensor.", show_default=False),
    ] = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output_format: FormatOption = OutputFormat.text,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Export a fitted scikit-learn estimator, and compare its answers with scikit-learn's own."""
    flags = {
        "export.sklearn.estimator": estimator,
        "export.sklearn.opset": opset,
        "export.sklearn.zipmap": zipmap,
    }
    with session(
        config=config,
        assignments=assignments,
        output_format=output_format,
        verbose=verbose,
        quiet=quiet,
        flags=flags,
        title="exporting",
    ) as run:
        from onnxsmith import api
        from onnxsmith.inference_engine.input_files import load_array

        source = _source_file(estimator)
        run.protect(output, inputs=[estimator, source, sample])
        result = api.export_sklearn(
            None,
            output,
            sample=load_array(sample) if sample is not None else None,
            trust_pickle=trust_pickle,
            config=run.config,
            progress=run.progress,
        )

        def rendered() -> list[RenderableType]:
            from onnxsmith.cli.render.exports import render_sklearn_export

            return render_sklearn_export(result)

        run.emit(result, rendered)
    if result.comparison is not None and not result.comparison.agree:
        fail_gate(f"the answers of {output} differ from scikit-learn's.")
