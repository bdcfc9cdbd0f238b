"""`onnxsmith optimize`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxsmith.cli.common import (
    ConfigOption,
    DimOption,
    FormatOption,
    InputOption,
    Level,
    ModelArgument,
    OutputFormat,
    QuietOption,
    SetOption,
    VerboseOption,
    fail_gate,
    parse_dims,
    session,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("optimize")(optimize)


def optimize(
    model: ModelArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the optimised model goes.")
    ] = None,
    level: Annotated[Level, typer.Option("--level", help="ONNX Runtime's level for --output.")] = Level.ORT_ENABLE_ALL,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output-dir", metavar="FOLDER", help="Save every level here, as optimized_ORT_*.onnx, and compare."
        ),
    ] = None,
    inputs: InputOption = None,
    dims: DimOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output_format: FormatOption = OutputFormat.text,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Optimise a model, and check its numbers.

    At one of ONNX Runtime's levels (--output), or at all four with a comparison (--output-dir).
    """
    if (output is None) == (output_dir is None):
        raise typer.BadParameter("give --output FILE for one level, or --output-dir FOLDER for all of them")
    with session(
        config=config,
        assignments=assignments,
        output_format=output_format,
        verbose=verbose,
        quiet=quiet,
        title="optimising",
    ) as run:
        from onnxsmith import api
        from onnxsmith.inference_engine.input_files import read_inputs

        levels = [output_dir / f"optimized_{name}.onnx" for name in Level] if output_dir is not None else []
        run.protect(output, *levels, inputs=inputs or [])
        loaded = api.load(model)
        check = {"feeds": read_inputs(inputs or [], loaded.inputs, run.config.inference), "dims": parse_dims(dims)}
        if output is not None:
            result = api.optimize(loaded, output, level=level.value, **check, config=run.config, progress=run.progress)

            def rendered() -> list[RenderableType]:
                from onnxsmith.cli.render.levels import render_level

                return render_level(result)

            run.emit(result, rendered)
            checked = [result]
        else:
            assert output_dir is not None
            report = api.optimize_levels(loaded, output_dir, **check, config=run.config, progress=run.progress)

            def rendered_levels() -> list[RenderableType]:
                from onnxsmith.cli.render.levels import render_levels

                return render_levels(report)

            run.emit(report, rendered_levels)
            checked = list(report.levels)
    differing = [result.level for result in checked if result.agreement.agree is False]
    if differing:
        fail_gate(f"the outputs at {', '.join(differing)} differ from the original's.")
