"""`onnxsmith infer`, `onnxsmith benchmark`, `onnxsmith profile`."""

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
    LevelOption,
    ModelArgument,
    OutputFormat,
    ProvidersOption,
    QuietOption,
    SetOption,
    VerboseOption,
    parse_dims,
    session,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", min=0, help="Threads inside an operator; 0: the runtime decides."),
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("infer")(infer)
    app.command("benchmark")(benchmark)
    app.command("profile")(profile)


def _flags(level: Level | None, providers: str | None, threads: int | None) -> dict[str, object]:
    return {
        "inference.optimization_level": level.value if level else None,
        "inference.providers": providers,
        "inference.intra_op_threads": threads,
    }


def infer(
    model: ModelArgument,
    inputs: InputOption = None,
    dims: DimOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Save the outputs to a .npz file.")
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option("--top-k", metavar="N", min=1, help="Show this many classes; by default for image classifiers."),
    ] = None,
    providers: ProvidersOption = None,
    level: LevelOption = None,
    threads: ThreadsOption = None,
    placement: Annotated[bool, typer.Option("--placement", help="List which node ran on which provider.")] = False,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output_format: FormatOption = OutputFormat.text,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Run a model once, on your inputs or on samples.

    What is not given is sampled by dtype and shape.
    """
    with session(
        config=config,
        assignments=assignments,
        output_format=output_format,
        verbose=verbose,
        quiet=quiet,
        flags=_flags(level, providers, threads),
        title="inferring",
    ) as run:
        from onnxsmith import api
        from onnxsmith.inference_engine.input_files import read_inputs, save_outputs

        loaded = api.load(model)
        feeds = read_inputs(inputs or [], loaded.inputs, run.config.inference)
        run.protect(output, inputs=inputs or [])
        if output is not None:
            loaded.forbid_overwrite(output)
        result = api.infer(loaded, feeds, dims=parse_dims(dims), top_k=top_k, config=run.config, progress=run.progress)
        if output is not None:
            save_outputs(output, result.outputs)

        def rendered() -> list[RenderableType]:
            from onnxsmith.cli.render.runs import render_inference

            return render_inference(result.report, output=output, placement=placement)

        run.emit(result.report, rendered)


def benchmark(
    models: Annotated[
        list[Path],
        typer.Argument(metavar="MODEL", help="ONNX files; several are measured side by side.", show_default=False),
    ],
    batch_sizes: Annotated[
        list[int] | None,
        typer.Option(
            "--batch-size", "-b", metavar="N", help="A batch size, where the batch is dynamic; may be given again."
        ),
    ] = None,
    warmup: Annotated[
        int | None, typer.Option("--warmup", metavar="N", min=0, help="Runs before the clock counts.")
    ] = None,
    runs: Annotated[int | None, typer.Option("--runs", metavar="N", min=1, help="Timed runs.")] = None,
    inputs: InputOption = None,
    dims: DimOption = None,
    providers: ProvidersOption = None,
    level: LevelOption = None,
    threads: ThreadsOption = None,
    chart: Annotated[
        Path | None, typer.Option("--chart", metavar="FILE", help="Draw latency and throughput to a .png file.")
    ] = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output_format: FormatOption = OutputFormat.text,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Measure latency and throughput by batch size.

    Several models are measured side by side, their runs taking turns.
    """
    flags = {
        **_flags(level, providers, threads),
        "benchmark.batch_sizes": batch_sizes,
        "benchmark.warmup_runs": warmup,
        "benchmark.runs": runs,
    }
    with session(
        config=config,
        assignments=assignments,
        output_format=output_format,
        verbose=verbose,
        quiet=quiet,
        flags=flags,
        title="measuring",
    ) as run:
        from onnxsmith import api
        from onnxsmith.inference_engine.input_files import read_inputs

        loaded = api.load_labelled(models)
        run.protect(chart, inputs=inputs or [])
        first = next(iter(loaded.values()))
        feeds = read_inputs(inputs or [], first.inputs, run.config.inference)
        report = api.benchmark(
            loaded, dims=parse_dims(dims), feeds=feeds, chart=chart, config=run.config, progress=run.progress
        )

        def rendered() -> list[RenderableType]:
            from onnxsmith.cli.render.runs import render_benchmark

            return render_benchmark(report)

        run.emit(report, rendered)


def profile(
    model: ModelArgument,
    runs: Annotated[int | None, typer.Option("--runs", metavar="N", min=1, help="Profiled runs.")] = None,
    warmup: Annotated[int | None, typer.Option("--warmup", metavar="N", min=0, help="Runs before them.")] = None,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Rows in each table.")] = 5,
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Keep the trace, for chrome://tracing or Perfetto.")
    ] = None,
    inputs: InputOption = None,
    dims: DimOption = None,
    providers: ProvidersOption = None,
    level: LevelOption = None,
    threads: ThreadsOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output_format: FormatOption = OutputFormat.text,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Show the slowest operators, by node and by type."""
    flags = {**_flags(level, providers, threads), "benchmark.runs": runs, "benchmark.warmup_runs": warmup}
    with session(
        config=config,
        assignments=assignments,
        output_format=output_format,
        verbose=verbose,
        quiet=quiet,
        flags=flags,
        title="profiling",
    ) as run:
        from onnxsmith import api
        from onnxsmith.inference_engine.input_files import read_inputs

        loaded = api.load(model)
        run.protect(trace, inputs=inputs or [])
        if trace is not None:
            loaded.forbid_overwrite(trace)
        feeds = read_inputs(inputs or [], loaded.inputs, run.config.inference)
        report = api.profile(
            loaded, feeds, dims=parse_dims(dims), trace=trace, config=run.config, progress=run.progress
        )

        def rendered() -> list[RenderableType]:
            from onnxsmith.cli.render.runs import render_profile

            return render_profile(report, top=top)

        run.emit(report, rendered)
