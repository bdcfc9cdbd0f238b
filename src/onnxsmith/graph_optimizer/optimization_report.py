"""What the levels of ONNX Runtime's optimiser made of a model."""

from __future__ import annotations

import logging
from pathlib import Path

from onnxsmith.config import Level
from onnxsmith.graph_analysis.node_counter import CountComparison
from onnxsmith.graph_optimizer.agreement import Agreement
from onnxsmith.graph_optimizer.constant_folder import FoldingComparison, FoldingReport
from onnxsmith.graph_optimizer.fusion_analyzer import FusionComparison, FusionReport
from onnxsmith.records import Record

logger = logging.getLogger(__name__)

ORIGINAL = "original"
"""The label of the model itself, which the levels are held against."""


class LevelResult(Record):
    """A model that ONNX Runtime wrote at one level.

    Attributes:
        level: The level.
        path: The file; its external data, where it has any, is beside it as `<name>.data`.
        nodes_before: Nodes of the original, those of subgraphs included.
        nodes_after: Nodes of the result, likewise.
        op_counts: Nodes of the result by operator, the most frequent first.
        size_bytes: Bytes on disk, external data included.
        seconds: To open the session, writing included.
        sha256: The digest of the result, as `Model.digest`.
        interface_unchanged: Whether inputs and outputs have the same names, order, types and dimensions.
        interface_differences: What changed there; empty where it is unchanged.
        interface_refined: Outputs whose shape is better known than before, which is no change.
        agreement: Its outputs against those of the original at ORT_DISABLE_ALL, on the same inputs.
        loads_again: Whether ONNX Runtime can load what it wrote.
        warnings: What to know of the file, ONNX Runtime's own warnings included.
    """

    level: Level
    path: Path
    nodes_before: int
    nodes_after: int
    op_counts: dict[str, int]
    size_bytes: int
    seconds: float
    sha256: str
    interface_unchanged: bool
    interface_differences: tuple[str, ...]
    interface_refined: tuple[str, ...]
    agreement: Agreement
    loads_again: bool
    warnings: tuple[str, ...]


class OptimizationReport(Record):
    """A model at several levels.

    Attributes:
        model: The model's name.
        reference: The label of what the levels are held against: the model as it was given.
        levels: A result for each level that worked, in the order of the configuration.
        failures: For each level that did not, why.
        fusion_before: The patterns of the model.
        folding_before: What of it folds.
        fusion: What became of the patterns.
        folding: What became of the nodes that fold.
        counts: Nodes by operator, level by level.
        notes: Dimensions that were taken by default for the comparison of outputs, and the like.
    """

    model: str
    reference: str
    levels: tuple[LevelResult, ...]
    failures: dict[str, str]
    fusion_before: FusionReport
    folding_before: FoldingReport
    fusion: FusionComparison
    folding: FoldingComparison
    counts: CountComparison
    notes: tuple[str, ...]


def log_report(report: OptimizationReport) -> None:
    """Writes the report to the log, a section a question."""
    lines = [f"Optimisation of {report.model}", "", "Before:"]
    lines += [f"  pattern {name}: {count}" for name, count in report.fusion_before.counts.items()]
    folding = report.folding_before
    lines += [
        f"  nodes that fold: {folding.count}, {folding.bytes_added:,} bytes added, {folding.bytes_removed:,} removed",
        *(f"  not folded: {node.op_type} '{node.node}': {node.reason}" for node in folding.blocked),
        "",
        f"{'level':<22}{'nodes':>8}{'BatchNorm':>11}{'folded':>8}{'MB':>10}{'s':>8}{'max error':>12}  agrees",
    ]
    before = report.counts.totals[report.reference]
    lines.append(f"{report.reference:<22}{before:>8}{report.fusion.batch_normalizations[report.reference]:>11}")
    for result in report.levels:
        error, agree = result.agreement.max_abs_error, result.agreement.agree
        lines.append(
            f"{result.level:<22}{result.nodes_after:>8}{report.fusion.batch_normalizations[result.level]:>11}"
            f"{report.folding.levels[result.level].gone:>8}{result.size_bytes / 1e6:>10.2f}{result.seconds:>8.2f}"
            f"{'-' if error is None else format(error, '.2e'):>12}  "
            f"{'not compared' if agree is None else 'yes' if agree else 'NO'}"
        )
    lines += [f"{level:<22} failed: {reason}" for level, reason in report.failures.items()]
    lines += ["", f"Patterns at {', '.join(report.fusion.levels)}, and where they went, as measured:"]
    lines += [
        f"  {name}: {' → '.join(str(count) for count in counts.values())}; {report.fusion.gone_at[name]}"
        for name, counts in report.fusion.patterns.items()
    ]
    for level, operators in report.fusion.fused_operators.items():
        if operators:
            lines.append(f"  new at {level}: " + ", ".join(f"{op} ×{count}" for op, count in operators.items()))
    remarks: dict[str, list[str]] = {}
    for result in report.levels:
        for remark in (*result.interface_differences, result.agreement.reason, *result.warnings):
            if remark is not None:
                remarks.setdefault(remark, []).append(result.level)
    if remarks or report.notes:
        lines += ["", "Remarks:", *(f"  {', '.join(levels)}: {remark}" for remark, levels in remarks.items())]
        lines += [f"  {note}" for note in report.notes]
    logger.info("%s", "\n".join(lines))
