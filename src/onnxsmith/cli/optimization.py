"""`onnxsmith optimize`, `bisect` and `passes`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxsmith.cli.common import (
    ConfigOption,
    FormatOption,
    InputOption,
    Level,
    ModelArgument,
    OutputFormat,
    QuietOption,
    Session,
    SetOption,
    VerboseOption,
    fail_gate,
    parse_dims,
    parse_new_dims,
    session,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

    from onnxsmith.graph_optimizer.optimize_report import OptimizeReport

PipelineOption = Annotated[
    str | None,
    typer.Option("--pipeline", metavar="NAME", help="A named pipeline: default, aggressive or exact."),
]
TargetOption = Annotated[
    str | None, typer.Option("--target", metavar="NAME", help="The pipeline of a target: ort-cpu, tensorrt, qnn-htp …")
]
PassesOption = Annotated[
    str | None,
    typer.Option("--passes", metavar="LIST", help="Run these passes instead, in this order: a,b{option=value}."),
]
SkipOption = Annotated[str | None, typer.Option("--skip", metavar="LIST", help="Passes that do not run.")]
NewDimOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        metavar="NAME=SIZE",
        help="Fix a dynamic dimension in the model (--dim batch=1), or rename it (--dim batch=n). With --level and "
        "--output-dir: the size to compare at.",
    ),
]
OpsetOption = Annotated[
    int | None, typer.Option("--opset", metavar="N", help="Convert the model to this opset.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("optimize")(optimize)
    app.command("bisect")(bisect)
    app.command("passes")(passes)


def optimize(
    model: ModelArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the optimised model goes.")
    ] = None,
    pipeline: PipelineOption = None,
    target: TargetOption = None,
    passes: PassesOption = None,
    skip: SkipOption = None,
    dims: NewDimOption = None,
    opset: OpsetOption = None,
    inputs: InputOption = None,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Do not compare the outputs.")] = False,
    check_each: Annotated[bool, typer.Option("--check-each", help="Compare the outputs after each pass.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say, node by node, why a rule that matched did not apply.")
    ] = False,
    strip_metadata: Annotated[
        bool, typer.Option("--strip-metadata", help="Do not note in the nodes which pass made them.")
    ] = False,
    dump: Annotated[
        Path | None, typer.Option("--dump", metavar="FOLDER", help="Save the model after each pass that changed it.")
    ] = None,
    level: Annotated[
        Level | None,
        typer.Option("--level", help="Let ONNX Runtime do it at this level, and nothing else.", show_default=False),
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output-dir", metavar="FOLDER", help="Save ONNX Runtime's levels here as optimized_ORT_*.onnx, compared."
        ),
    ] = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output_format: FormatOption = OutputFormat.text,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Optimise a model's graph, and check that it still computes the same.

    The interface stays as it is, and so does the opset. With --level or --output-dir it is ONNX Runtime that optimises.
    """
    own = {
        **_choice(pipeline, target, passes, skip, opset),
        "verify": False if no_verify else None,
        "check": "each" if check_each else None,
        "provenance": False if strip_metadata else None,
    }
    if (output is None) == (output_dir is None):
        raise typer.BadParameter("give --output FILE, or --output-dir FOLDER for ONNX Runtime's levels")
    by_runtime = level is not None or output_dir is not None
    if by_runtime and (dump or explain or any(value is not None for value in own.values())):
        raise typer.BadParameter("with --level or --output-dir ONNX Runtime optimises, and runs none of our passes")
    with session(
        config=config,
        assignments=assignments,
        output_format=output_format,
        verbose=verbose,
        quiet=quiet,
        flags={f"optimization.{key}": value for key, value in own.items()},
        title="optimising",
    ) as run:
        levels = [output_dir / f"optimized_{name}.onnx" for name in Level] if output_dir is not None else []
        missed = None
        run.protect(output, *levels, inputs=inputs or [])
        if by_runtime:
            differing = _by_runtime(run, model, output, output_dir, level=level, inputs=inputs, dims=parse_dims(dims))
        else:
            assert output is not None
            missed = _by_passes(
                run, model, output, inputs=inputs, dims=parse_new_dims(dims), dump=dump, explain=explain
            )
            differing = []
    if missed is not None:
        fail_gate(missed)
    if differing:
        fail_gate(f"the outputs at {', '.join(differing)} differ from the original's.")


def bisect(
    model: ModelArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the smallest part goes, as a model.")
    ] = None,
    pipeline: PipelineOption = None,
    target: TargetOption = None,
    passes: PassesOption = None,
    skip: SkipOption = None,
    dims: NewDimOption = None,
    opset: OpsetOption = None,
    inputs: InputOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output_format: FormatOption = OutputFormat.text,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Find the pass that breaks a model, and the smallest part of the model that shows it.

    Exits with 1 where a pass is to blame, with 0 where none is.
    """
    with session(
        config=config,
        assignments=assignments,
        output_format=output_format,
        verbose=verbose,
        quiet=quiet,
        flags={f"optimization.{key}": value for key, value in _choice(pipeline, target, passes, skip, opset).items()},
        title="bisecting",
    ) as run:
        from onnxsmith import api

        run.protect(output, inputs=inputs or [])
        loaded = api.load(model)
        report = api.bisect(
            loaded,
            output,
            feeds=_feeds(run, loaded, inputs),
            dims=parse_new_dims(dims) or None,
            config=run.config,
            progress=run.progress,
        )

        def rendered() -> list[RenderableType]:
            from onnxsmith.cli.render.optimization import render_bisection

            return render_bisection(report)

        run.emit(report, rendered)
    if report.culprit is not None:
        fail_gate(f"the pass {report.culprit} breaks the model.")


def _choice(
    pipeline: str | None, target: str | None, passes: str | None, skip: str | None, opset: int | None
) -> dict[str, Any]:
    """The keys of `optimization` that say which passes run."""
    if sum(option is not None for option in (pipeline, target, passes)) > 1:
        raise typer.BadParameter("give one of --pipeline, --target and --passes")
    if passes is not None and not passes.strip(" ,"):
        raise typer.BadParameter("--passes names no pass; leave it out for the pipeline")
    choice: dict[str, Any] = {"pipeline": pipeline, "target": target, "passes": passes}
    if any(option is not None for option in choice.values()):  # a flag is stronger than what the configuration chose
        choice = {"pipeline": pipeline, "target": target or "", "passes": passes or []}
    return {**choice, "skip": skip, "opset": opset}


def _by_passes(
    run: Session,
    model: Path,
    output: Path,
    *,
    inputs: list[str] | None,
    dims: dict[str, int | str],
    dump: Path | None,
    explain: bool,
) -> str | None:
    """Optimises by our passes. Returns what was asked for and could not be done, or None."""
    from onnxsmith.model.checking import start_early

    checking = start_early(model, run.config.limits)
    from onnxsmith import api

    loaded = api.load(model)
    report = api.optimize(
        loaded,
        output,
        feeds=_feeds(run, loaded, inputs),
        dims=dims or None,
        dump=dump,
        checking=checking,
        config=run.config,
        progress=run.progress,
    )
    missed = _missed(report, dims or run.config.optimization.dims, run.config.optimization.opset)
    if not explain:
        report = report.model_copy(update={"notes": ()})

    def rendered() -> list[RenderableType]:
        from onnxsmith.cli.render.optimization import render_optimization

        return render_optimization(report)

    run.emit(report, rendered)
    return missed


def _missed(report: OptimizeReport, dims: Mapping[str, int | str], opset: int | None) -> str | None:
    """What the file is not like, of what was asked for, and why."""
    reasons = {gone.name: gone.reason for gone in report.rolled_back}
    for note in report.notes:
        reasons.setdefault(note.name, f"{note.node}: {note.reason}")
    if opset is not None and report.opset_after != opset:
        why = reasons.get("convert-opset") or report.unchanged
        return f"opset {opset} is asked for, and the model stays at {report.opset_after}: {why}."
    if dims and "specialize-shapes" not in {step.name for step in report.steps if report.unchanged is None}:
        why = reasons.get("specialize-shapes") or report.unchanged
        return f"the dimensions are not as asked for: {why}."
    return None


def _by_runtime(
    run: Session,
    model: Path,
    output: Path | None,
    output_dir: Path | None,
    *,
    level: Level | None,
    inputs: list[str] | None,
    dims: dict[str, int],
) -> list[str]:
    """Lets ONNX Runtime optimise. Returns the levels at which the outputs differ."""
    from onnxsmith import api

    loaded = api.load(model)
    check: dict[str, Any] = {"feeds": _feeds(run, loaded, inputs), "config": run.config, "progress": run.progress}
    if output_dir is not None:
        report = api.optimize_levels(loaded, output_dir, dims=dims, **check)

        def rendered_levels() -> list[RenderableType]:
            from onnxsmith.cli.render.levels import render_levels

            return render_levels(report)

        run.emit(report, rendered_levels)
        return [result.level for result in report.levels if result.agreement.agree is False]
    assert output is not None
    assert level is not None
    result = api.optimize(loaded, output, level=level.value, dims=dims, **check)

    def rendered() -> list[RenderableType]:
        from onnxsmith.cli.render.levels import render_level

        return render_level(result)

    run.emit(result, rendered)
    return [result.level] if result.agreement.agree is False else []


def _feeds(run: Session, loaded: Any, inputs: list[str] | None) -> dict[str, Any]:
    if not inputs:
        return {}
    from onnxsmith.inference_engine.input_files import read_inputs

    return dict(read_inputs(inputs, loaded.inputs, run.config.inference))


def passes(
    name: Annotated[
        str | None, typer.Argument(metavar="[PASS]", help="Describe this pass and its options.", show_default=False)
    ] = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output_format: FormatOption = OutputFormat.text,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """List the passes and the pipelines, or describe one pass."""
    with session(
        config=config,
        assignments=assignments,
        output_format=output_format,
        verbose=verbose,
        quiet=quiet,
        title="passes",
    ) as run:
        from onnxsmith.graph_optimizer.pass_listing import describe_pass, list_passes

        if name is not None:
            description = describe_pass(name)

            def rendered_pass() -> list[RenderableType]:
                from onnxsmith.cli.render.optimization import render_pass

                return render_pass(description)

            run.emit(description, rendered_pass)
            return
        listing = list_passes()

        def rendered() -> list[RenderableType]:
            from onnxsmith.cli.render.optimization import render_passes

            return render_passes(listing)

        run.emit(listing, rendered)
