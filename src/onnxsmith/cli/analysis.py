"""`onnxsmith inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxsmith.cli.common import (
    ConfigOption,
    FormatOption,
    ModelArgument,
    OutputFormat,
    QuietOption,
    SetOption,
    VerboseOption,
    session,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("inspect")(inspect)


def inspect(
    model: ModelArgument,
    nodes: Annotated[bool, typer.Option("--nodes", help="List every node with its attributes.")] = False,
    initializers: Annotated[bool, typer.Option("--initializers", help="List every initializer.")] = False,
    shapes: Annotated[bool, typer.Option("--shapes", help="List the shapes that flow through every node.")] = False,
    chart: Annotated[
        Path | None, typer.Option("--chart", metavar="FILE", help="Draw the operator counts to a .png file.")
    ] = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output_format: FormatOption = OutputFormat.text,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Validate a model and show what is in it.

    Inputs, outputs, operators, weights, dynamic dimensions, and opportunities to optimise.
    """
    with session(
        config=config,
        assignments=assignments,
        output_format=output_format,
        verbose=verbose,
        quiet=quiet,
        title="inspecting",
    ) as run:
        from onnxsmith import api

        run.protect(chart)
        loaded = api.load(model)
        report = api.inspect(loaded, chart=chart, config=run.config, progress=run.progress)
        flow = api.analyze_shapes(loaded, config=run.config) if shapes else None

        def rendered() -> list[RenderableType]:
            from onnxsmith.cli.render.inspection import render_inspection

            return render_inspection(report, nodes=nodes, initializers=initializers, shapes=flow)

        run.emit(report, rendered, shapes=flow)
