"""The text of `onnxsmith optimize`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxsmith.cli.render.parts import Parts, bullets, facts, table
from onnxsmith.records import format_bytes

if TYPE_CHECKING:
    from onnxsmith.graph_optimizer import LevelResult, OptimizationReport


def render_level(result: LevelResult) -> Parts:
    """The text of `onnxsmith optimize --output`."""
    return [
        facts(
            str(result.path),
            [
                ("level", result.level),
                ("nodes", f"{result.nodes_before} → {result.nodes_after}"),
                ("size", format_bytes(result.size_bytes)),
                ("digest", f"sha256:{result.sha256}"),
                ("outputs", agreement_text(result)),
                ("interface", "unchanged" if result.interface_unchanged else "; ".join(result.interface_differences)),
                ("time", f"{result.seconds:.2f} s"),
            ],
        ),
        *bullets("Warnings", result.warnings, "yellow"),
    ]


def agreement_text(result: LevelResult) -> str:
    """Whether a level's outputs agree with the original's, and how closely."""
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
                    format_bytes(result.size_bytes),
                    f"{fusion.batch_normalizations[report.reference]} → {fusion.batch_normalizations[result.level]}",
                    f"{folding.levels[result.level].gone} of {folding.foldable}",
                    agreement_text(result),
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
