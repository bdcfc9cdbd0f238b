"""The texts of `onnxsmith infer`, `benchmark` and `profile`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from onnxsmith.cli.render.parts import Parts, bullets, facts, table

if TYPE_CHECKING:
    from onnxsmith.inference_engine.benchmark import BenchmarkReport, BenchmarkResult
    from onnxsmith.inference_engine.ort_inference import InferenceReport, TensorSummary
    from onnxsmith.inference_engine.profiler import OperatorTime, ProfileReport


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
