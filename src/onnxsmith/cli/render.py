"""Results as text for a person, with rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from onnxsmith.doctor import DoctorReport
    from onnxsmith.graph_analysis import ModelReport, ShapeReport
    from onnxsmith.graph_optimizer import LevelResult, OptimizationReport
    from onnxsmith.inference_engine.benchmark import BenchmarkReport, BenchmarkResult
    from onnxsmith.inference_engine.ort_inference import InferenceReport, TensorSummary
    from onnxsmith.inference_engine.profiler import OperatorTime, ProfileReport
    from onnxsmith.lifecycle import LifecycleReport, SubjectReport
    from onnxsmith.model_exporter import PyTorchExport, SklearnExport

Parts = list[RenderableType]

_MOST_ROWS = 20


def table(title: str, *columns: str, rows: Iterable[Sequence[object]], right: Sequence[int] = ()) -> Table:
    """A table; the columns numbered in `right` are set flush right."""
    made = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD, title_style="bold", pad_edge=False)
    for index, column in enumerate(columns):
        made.add_column(column, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(escape(str(cell)) for cell in row))
    return made


def facts(title: str, pairs: Iterable[tuple[str, object]]) -> RenderableType:
    """Names and values; pairs with an empty value are left out."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim")
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value not in ("", None, ()):
            made.add_row(name, escape(str(value)))
    return Group(Text(title, style="bold"), made, Text())


def bullets(title: str, lines: Iterable[str], style: str = "") -> Parts:
    """A list of lines under a title; nothing where there are none."""
    texts = [Text(f"- {line}", style=style) for line in lines]
    return [Group(Text(title, style="bold"), *texts, Text())] if texts else []


def megabytes(count: int) -> str:
    """Bytes in words: "97.3 MB", a megabyte being 2^20 bytes."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def render_doctor(report: DoctorReport) -> Parts:
    """The text of `onnxsmith doctor`."""
    memory = f"{report.memory_gb:.1f} GB" if report.memory_gb is not None else "unknown"
    features = ", ".join(feature.name for feature in report.cpu_features if feature.present)
    lacking = ", ".join(
        f"{feature.name} ({feature.good_for})" for feature in report.cpu_features if not feature.present
    )
    return [
        facts(
            f"onnxsmith {report.onnxsmith}",
            [
                ("Python", report.python),
                ("system", report.system),
                ("CPU", f"{report.cpu}, {report.cores} cores"),
                ("CPU features", features or "not listed by this system"),
                ("it lacks", lacking),
                ("memory", memory),
                ("free disk here", f"{report.disk_free_gb:.1f} GB"),
            ],
        ),
        table(
            "Packages",
            "package",
            "part of",
            "version",
            "how to get it",
            rows=[
                (part.name, part.group, part.version or "missing", part.how_to_get or "")
                for part in report.components
                if part.group != "provider"
            ],
        ),
        table(
            "Execution providers of ONNX Runtime",
            "provider",
            "here",
            "how to get it",
            rows=[
                (part.name, "yes" if part.present else "no", part.how_to_get or "")
                for part in report.components
                if part.group == "provider"
            ],
        ),
        *bullets("Problems", report.problems, "red"),
        *([] if report.problems else [Text("No problems.", style="green")]),
    ]


def render_inspection(
    report: ModelReport, *, nodes: bool = False, initializers: bool = False, shapes: ShapeReport | None = None
) -> Parts:
    """The text of `onnxsmith inspect`."""
    totals = report.totals
    external = ", ".join(f"{file.name} ({megabytes(file.bytes)})" for file in report.external_files)
    parameters = ", ".join(f"{count:,} {dtype}" for dtype, count in totals.parameters_by_dtype.items())
    parts: Parts = [
        facts(
            report.path or report.graph_name,
            [
                ("digest", f"sha256:{report.digest}"),
                ("size", megabytes(report.size_bytes)),
                ("external data", external),
                ("IR version", report.ir_version),
                ("opset", ", ".join(f"{domain} {version}" for domain, version in report.opsets.items())),
                ("graph", report.graph_name),
                ("producer", f"{report.producer_name} {report.producer_version}".strip()),
                ("description", report.doc_string),
                ("metadata", ", ".join(f"{key}={value}" for key, value in report.metadata.items())),
                ("parameters", f"{totals.parameters:,} ({parameters})" if parameters else "0"),
                ("weights", f"{totals.initializers:,} initializers, {megabytes(totals.bytes)}"),
                ("nodes", _node_counts(report)),
                ("functions", ", ".join(f"{f.domain}::{f.name} ({f.nodes} nodes)" for f in report.functions)),
                ("custom operators", ", ".join(report.custom_operators)),
                ("dynamic dimensions", ", ".join(f"{d.name} ({', '.join(d.places)})" for d in report.dynamic_dims)),
                ("overridable", ", ".join(report.overridable_initializers)),
            ],
        ),
        table("Inputs", "name", "type", rows=[(spec.name, spec) for spec in report.inputs]),
        table("Outputs", "name", "type", rows=[(spec.name, spec) for spec in report.outputs]),
        _counts(report),
    ]
    if nodes:
        parts.append(_nodes(report))
    if initializers:
        parts.append(
            table(
                "Initializers",
                "name",
                "dtype",
                "shape",
                "elements",
                "bytes",
                "where",
                rows=[
                    (i.name, i.dtype, list(i.shape), f"{i.elements:,}", f"{i.bytes:,}", _where(i.external, i.graph))
                    for i in report.initializers
                ],
                right=(3, 4),
            )
        )
    if shapes is not None:
        parts += bullets(
            f"Shapes: known for {shapes.known_before} of {shapes.total} tensors in the file, "
            f"for {shapes.known_after} after inference",
            (),
        )
        parts.append(Text("\n".join(shapes.lines)))
    return [
        *parts,
        *bullets("Opportunities", _opportunities(report)),
        *bullets("Warnings", report.warnings, "yellow"),
    ]


def _node_counts(report: ModelReport) -> str:
    inside = report.node_count - report.main_node_count
    return f"{report.node_count:,}" + (f" ({inside:,} of them in subgraphs)" if inside else "")


def _where(external: bool, graph: str) -> str:
    return ", ".join(filter(None, ("external" if external else "", graph)))


def _counts(report: ModelReport) -> RenderableType:
    rows = list(report.op_counts.items())
    shown = rows[:_MOST_ROWS]
    rest = rows[_MOST_ROWS:]
    if rest:
        shown.append((f"{len(rest)} other types", sum(count for _, count in rest)))
    return table("Operators", "operator", "nodes", rows=shown, right=(1,))


def _nodes(report: ModelReport) -> RenderableType:
    return table(
        "Nodes",
        "#",
        "operator",
        "name",
        "inputs",
        "outputs",
        "attributes",
        rows=[
            (
                f"{node.graph}[{node.index}]" if node.graph else node.index,
                f"{node.domain}::{node.op_type}" if node.domain else node.op_type,
                node.name,
                ", ".join(node.inputs),
                ", ".join(node.outputs),
                ", ".join(f"{key}={value}" for key, value in node.attributes.items()),
            )
            for node in report.nodes
        ],
    )


def _opportunities(report: ModelReport) -> list[str]:
    """One line a kind, with how often it is there and the first place."""
    by_kind: dict[str, list[tuple[str, str]]] = {}
    for found in report.opportunities:
        by_kind.setdefault(found.kind, []).append((found.text, found.nodes[0] if found.nodes else ""))
    return [
        f"{kind}, {len(found)} time{'s' if len(found) > 1 else ''}: {found[0][0]}" for kind, found in by_kind.items()
    ]


def render_inference(report: InferenceReport, *, output: Path | None = None, placement: bool = False) -> Parts:
    """The text of `onnxsmith infer`."""
    counts = ", ".join(f"{count} on {provider}" for provider, count in report.placement.counts.items())
    parts: Parts = [
        facts(
            report.model,
            [
                ("level", report.optimization_level),
                ("providers", ", ".join(report.providers)),
                ("nodes", f"{counts} (of the optimised graph)"),
                ("time", f"{report.load_ms:.1f} ms to load, {report.run_ms:.1f} ms for this first run"),
                ("optimised model", report.optimized_model),
                ("profile", report.profile),
                ("outputs saved to", output),
            ],
        ),
        table(
            "Inputs", *_TENSOR_COLUMNS, "from", rows=[(*_tensor(t), _source(t)) for t in report.inputs], right=_NUMBERS
        ),
        table("Outputs", *_TENSOR_COLUMNS, rows=[_tensor(t) for t in report.outputs], right=_NUMBERS),
    ]
    if report.top_classes:
        parts.append(
            table(
                "Most probable classes",
                "row",
                "class",
                "probability",
                rows=[
                    (row, score.index, f"{score.probability:.4f}")
                    for row, scores in enumerate(report.top_classes[:4])
                    for score in scores
                ],
                right=(0, 1, 2),
            )
        )
    if placement:
        parts.append(
            table(
                "Placement",
                "node",
                "operator",
                "provider",
                "",
                rows=[
                    (n.node, n.op_type, n.provider, "fell back" if n.fallback else "") for n in report.placement.nodes
                ],
            )
        )
    return [
        *parts,
        *bullets("Left out", (f"{left.provider}: {left.reason}" for left in report.selection.left_out), "yellow"),
        *bullets("Fell back to the CPU", (f"{n.op_type} {n.node}" for n in report.placement.fallbacks), "yellow"),
        *bullets("Notes", report.notes),
    ]


_TENSOR_COLUMNS = ("name", "dtype", "shape", "minimum", "mean", "maximum", "NaN or infinite")
_NUMBERS = (3, 4, 5, 6)


def _tensor(summary: TensorSummary) -> tuple[object, ...]:
    numbers = (summary.minimum, summary.mean, summary.maximum)
    return (
        summary.name,
        summary.dtype,
        list(summary.shape),
        *("" if number is None else f"{number:.5g}" for number in numbers),
        summary.not_finite or "",
    )


def _source(summary: TensorSummary) -> str:
    return "sampled" if summary.sampled else "given"


def render_benchmark(report: BenchmarkReport) -> Parts:
    """The text of `onnxsmith benchmark`."""
    return [
        benchmark_table("Benchmark", report.results),
        *bullets("Notes", report.notes),
        Text(
            f"{report.machine.cpu}, {report.machine.cores} cores, ONNX Runtime {report.machine.onnxruntime}",
            style="dim",
        ),
    ]


def benchmark_table(title: str, results: Sequence[BenchmarkResult]) -> Table:
    """Latency and throughput, and against the first model where there are several."""
    reference = {result.batch_size: result for result in results if result.model == results[0].model}
    several = len({result.model for result in results}) > 1

    def ratio(result: BenchmarkResult) -> str:
        base = reference.get(result.batch_size)
        return f"{base.p50_latency_ms / result.p50_latency_ms:.2f}×" if base and result.p50_latency_ms else ""

    columns = ("model", "batch", "mean ms", "± std", "p50", "p95", "p99", "samples/s", "load ms")
    return table(
        title,
        *columns,
        *((f"speed-up over {results[0].model}",) if several else ()),
        rows=[
            (
                result.model,
                result.batch_size,
                f"{result.mean_latency_ms:.3f}",
                f"{result.std_latency_ms:.3f}",
                f"{result.p50_latency_ms:.3f}",
                f"{result.p95_latency_ms:.3f}",
                f"{result.p99_latency_ms:.3f}",
                f"{result.throughput_samples_per_s:,.1f}",
                f"{result.load_ms:.1f}",
                *((ratio(result),) if several else ()),
            )
            for result in results
        ],
        right=range(1, 10),
    )


def render_profile(report: ProfileReport, *, top: int = 5) -> Parts:
    """The text of `onnxsmith profile`."""
    overhead = report.run_us - report.operators_us
    return [
        facts(
            report.model,
            [
                ("runs", report.runs),
                ("a run", f"{report.run_us / 1000:.3f} ms with the profiler on"),
                (
                    "in operators",
                    f"{report.operators_us / 1000:.3f} ms; {overhead / 1000:.3f} ms are the runtime's own",
                ),
                ("trace", report.trace),
            ],
        ),
        operator_table(f"The {min(top, len(report.nodes))} slowest nodes", report.nodes[:top]),
        operator_table(f"The {min(top, len(report.operators))} slowest operator types", report.operators[:top]),
        *bullets("Notes", report.notes),
    ]


def operator_table(title: str, rows: Sequence[OperatorTime]) -> Table:
    """Times of nodes or of operator types."""
    return table(
        title,
        "name",
        "operator",
        "calls a run",
        "ms a run",
        "share",
        "output",
        "provider",
        rows=[
            (
                row.name,
                row.op_type,
                f"{row.calls:g}",
                f"{row.mean_us / 1000:.3f}",
                f"{row.share:.1%}",
                ", ".join(row.output_shapes),
                row.provider.removesuffix("ExecutionProvider"),
            )
            for row in rows
        ],
        right=(2, 3, 4),
    )


def render_pytorch_export(export: PyTorchExport) -> Parts:
    """The text of `onnxsmith export pytorch`."""
    return [
        facts(
            str(export.path),
            [
                ("module", f"{export.module}, {export.parameter_count:,} parameters"),
                ("exporter", export.exporter),
                ("opset", export.opset),
                ("nodes", export.node_count),
                ("size", megabytes(export.size_bytes)),
                ("inputs", ", ".join(f"{spec.name}: {spec}" for spec in export.inputs)),
                ("outputs", ", ".join(f"{spec.name}: {spec}" for spec in export.outputs)),
                ("dynamic dimensions", ", ".join(export.dynamic_dims) or "none"),
            ],
        ),
        table(
            "ONNX Runtime against PyTorch on the same inputs",
            "input shapes",
            "largest error",
            "relative",
            "verdict",
            rows=[
                (
                    ", ".join(str(list(shape)) for shape in row.input_shapes),
                    f"{row.max_abs_error:.2e}",
                    f"{row.max_rel_error:.2e}",
                    "agrees" if row.agree else "DIFFERS",
                )
                for row in export.comparison
            ],
            right=(1, 2),
        ),
        *bullets("Warnings", export.warnings, "yellow"),
    ]


def render_sklearn_export(export: SklearnExport) -> Parts:
    """The text of `onnxsmith export sklearn`."""
    return [
        facts(
            str(export.path),
            [
                ("estimator", export.estimator),
                ("opset", export.opset),
                ("operators", export.operator_count),
                ("", ", ".join(f"{op} × {count}" for op, count in export.node_types.items())),
                ("size", megabytes(export.size_bytes)),
                ("inputs", ", ".join(f"{spec.name}: {spec}" for spec in export.inputs)),
                ("outputs", ", ".join(f"{spec.name}: {spec}" for spec in export.outputs)),
                ("against scikit-learn", export.comparison or "not compared"),
            ],
        ),
        *bullets("Warnings", export.warnings, "yellow"),
    ]


def render_level(result: LevelResult) -> Parts:
    """The text of `onnxsmith optimize --output`."""
    return [
        facts(
            str(result.path),
            [
                ("level", result.level),
                ("nodes", f"{result.nodes_before} → {result.nodes_after}"),
                ("size", megabytes(result.size_bytes)),
                ("digest", f"sha256:{result.sha256}"),
                ("outputs", _agreement(result)),
                ("interface", "unchanged" if result.interface_unchanged else "; ".join(result.interface_differences)),
                ("time", f"{result.seconds:.2f} s"),
            ],
        ),
        *bullets("Warnings", result.warnings, "yellow"),
    ]


def _agreement(result: LevelResult) -> str:
    agreement = result.agreement
    if agreement.agree is None:
        return f"not compared: {agreement.reason}"
    error = "" if agreement.max_abs_error is None else f", largest error {agreement.max_abs_error:.1e}"
    return f"{'agree' if agreement.agree else 'DIFFER'}{error}{f' ({agreement.reason})' if agreement.reason else ''}"


def render_levels(report: OptimizationReport) -> Parts:
    """The text of `onnxsmith optimize --output-dir`."""
    fusion, folding = report.fusion, report.folding
    parts: Parts = [
        table(
            report.model,
            "level",
            "nodes",
            "size",
            "BatchNorm",
            "folded",
            "outputs against the original",
            "file",
            rows=[
                (
                    result.level,
                    f"{result.nodes_before} → {result.nodes_after}",
                    megabytes(result.size_bytes),
                    f"{fusion.batch_normalizations[report.reference]} → {fusion.batch_normalizations[result.level]}",
                    f"{folding.levels[result.level].gone} of {folding.foldable}",
                    _agreement(result),
                    result.path,
                )
                for result in report.levels
            ],
            right=(1, 2, 3, 4),
        ),
        table(
            "Patterns that runtimes fuse",
            "pattern",
            *fusion.levels,
            "gone at",
            rows=[
                (pattern, *(counts[level] for level in fusion.levels), fusion.gone_at.get(pattern, ""))
                for pattern, counts in fusion.patterns.items()
            ],
            right=range(1, 1 + len(fusion.levels)),
        ),
    ]
    warnings = [f"{result.level}: {warning}" for result in report.levels for warning in result.warnings]
    interface = [f"{result.level}: {text}" for result in report.levels for text in result.interface_differences]
    return [
        *parts,
        *bullets("Failed", (f"{level}: {reason}" for level, reason in report.failures.items()), "red"),
        *bullets("Interface", interface, "yellow"),
        *bullets("Warnings", warnings, "yellow"),
        *bullets("Notes", report.notes),
    ]


def render_lifecycle(report: LifecycleReport) -> Parts:
    """The text of `onnxsmith run`: a summary, and where the rest is."""
    parts: Parts = []
    for subject in report.subjects:
        parts += [
            benchmark_table(f"{subject.label}: {subject.title}", subject.benchmark),
            _level_summary(subject),
            operator_table("Slowest nodes", subject.profile.slowest_nodes),
            *bullets("Warnings and notes", subject.warnings, "yellow"),
        ]
    return [
        *parts,
        table("Summary", *_SUMMARY_COLUMNS, rows=[_summary(subject) for subject in report.subjects], right=range(1, 8)),
        facts(
            f"Done in {report.seconds:.1f} s",
            [
                ("report", report.report),
                ("models and charts", ", ".join(sorted({str(subject.folder) for subject in report.subjects}))),
                ("log", report.log),
            ],
        ),
    ]


_SUMMARY_COLUMNS = (
    "model",
    "size",
    "nodes",
    "fewest",
    "p50 ms",
    "p99 ms",
    "best samples/s",
    "accuracy",
    "same answers at every level",
)


def _summary(subject: SubjectReport) -> tuple[object, ...]:
    first = subject.benchmark[0] if subject.benchmark else None
    levels = subject.optimization.levels
    return (
        subject.label,
        megabytes(subject.inspection.size_bytes),
        subject.inspection.node_count,
        min((result.nodes_after for result in levels), default=""),
        f"{first.p50_latency_ms:.3f}" if first else "",
        f"{first.p99_latency_ms:.3f}" if first else "",
        f"{max(result.throughput_samples_per_s for result in subject.benchmark):,.0f}" if first else "",
        f"{subject.accuracy.rows[0].accuracy:.4f}" if subject.accuracy else "",
        _same_answers(subject),
    )


def _same_answers(subject: SubjectReport) -> str:
    if subject.accuracy is not None:
        return f"yes, all {subject.accuracy.samples}" if subject.accuracy.all_same else "NO"
    agreements = [result.agreement.agree for result in subject.optimization.levels]
    if any(agree is None for agree in agreements):
        return "not comparable"
    return "within tolerance" if all(agreements) else "NO"


def _level_summary(subject: SubjectReport) -> Table:
    latency = {result.model: result.p50_latency_ms for result in subject.level_benchmark}
    accuracy = {row.label: row.accuracy for row in subject.accuracy.rows} if subject.accuracy else {}
    return table(
        "Levels (each file as it is, side by side)",
        "level",
        "nodes",
        "size",
        "p50 ms",
        "accuracy",
        "outputs",
        rows=[
            (
                result.level,
                f"{result.nodes_before} → {result.nodes_after}",
                megabytes(result.size_bytes),
                f"{latency[result.level]:.3f}" if result.level in latency else "",
                f"{accuracy[result.level]:.4f}" if result.level in accuracy else "",
                _agreement(result),
            )
            for result in subject.optimization.levels
        ],
        right=(1, 2, 3, 4),
    )
