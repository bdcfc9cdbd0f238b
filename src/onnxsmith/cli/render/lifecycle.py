"""The text of `onnxsmith run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from onnxsmith.cli.render.levels import agreement_text
from onnxsmith.cli.render.optimization import verification_text
from onnxsmith.cli.render.parts import Parts, bullets, facts, table
from onnxsmith.cli.render.runs import benchmark_table, operator_table
from onnxsmith.lifecycle.records import OWN
from onnxsmith.records import format_bytes

if TYPE_CHECKING:
    from onnxsmith.lifecycle import LifecycleReport, SubjectReport


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
    "same answers in every form",
)


def _summary(subject: SubjectReport) -> tuple[object, ...]:
    first = subject.benchmark[0] if subject.benchmark else None
    counts = [result.nodes_after for result in subject.optimization.levels]
    return (
        subject.label,
        format_bytes(subject.inspection.size_bytes),
        subject.inspection.node_count,
        min((*counts, sum(subject.optimized.op_counts_after.values()))),
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
    agreements.append(subject.optimized.verification.agree)
    if any(agree is None for agree in agreements):
        return "not comparable"
    return "within tolerance" if all(agreements) else "NO"


def _level_summary(subject: SubjectReport) -> Table:
    latency = {result.model: result.p50_latency_ms for result in subject.level_benchmark}
    accuracy = {row.label: row.accuracy for row in subject.accuracy.rows} if subject.accuracy else {}
    own = subject.optimized
    return table(
        "Optimised (each file as it is, side by side)",
        "by",
        "nodes",
        "size",
        "p50 ms",
        "accuracy",
        "outputs",
        rows=[
            (
                name,
                f"{before} → {after}",
                format_bytes(size),
                f"{latency[name]:.3f}" if name in latency else "",
                f"{accuracy[name]:.4f}" if name in accuracy else "",
                outputs,
            )
            for name, before, after, size, outputs in (
                *(
                    (result.level, result.nodes_before, result.nodes_after, result.size_bytes, agreement_text(result))
                    for result in subject.optimization.levels
                ),
                (
                    OWN,
                    sum(own.op_counts_before.values()),
                    sum(own.op_counts_after.values()),
                    own.size_after,
                    verification_text(own.verification),
                ),
            )
        ],
        right=(1, 2, 3, 4),
    )
