"""The text of `onnxsmith optimize` by our passes, and of `onnxsmith passes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxsmith.cli.render.parts import Parts, bullets, facts, table
from onnxsmith.records import format_bytes

if TYPE_CHECKING:
    from onnxsmith.graph_optimizer import OptimizeReport
    from onnxsmith.graph_optimizer.agreement import Verification
    from onnxsmith.graph_optimizer.bisection import BisectReport
    from onnxsmith.graph_optimizer.pass_listing import PassInfo, PassListing


def render_optimization(report: OptimizeReport) -> Parts:
    """The text of `onnxsmith optimize`."""
    opset = f"{report.opset_before} → {report.opset_after}" if report.opset_before != report.opset_after else ""
    return [
        facts(
            str(report.output),
            [
                ("pipeline", report.pipeline),
                ("opset", opset),
                ("nodes", f"{report.nodes_before} → {report.nodes_after} (without Constant)"),
                ("size", f"{format_bytes(report.size_before)} → {format_bytes(report.size_after)}"),
                ("outputs", verification_text(report.verification)),
                ("unchanged", report.unchanged or ""),
                ("time", f"{report.seconds:.2f} s"),
            ],
        ),
        *_passes(report),
        *bullets("Rolled back", (f"{gone.name}: {gone.reason}" for gone in report.rolled_back), "yellow"),
        *bullets("Better known", report.interface_refined),
        *(
            [
                table(
                    "Why not",
                    "node",
                    "operator",
                    "pass",
                    "reason",
                    rows=[(note.node, note.op_type, note.name, note.reason) for note in report.notes],
                )
            ]
            if report.notes
            else []
        ),
    ]


def _passes(report: OptimizeReport) -> Parts:
    if not report.steps:
        return []
    return [
        table(
            "Passes",
            "pass",
            "changes",
            "nodes",
            "bytes",
            "time",
            rows=[
                (
                    total.name,
                    total.changes,
                    f"{-total.nodes_removed:+d}" if total.nodes_removed else "",
                    _signed_bytes(-total.bytes_removed),
                    f"{total.seconds:.3f} s",
                )
                for total in report.passes
                if total.changes
            ],
            right=(1, 2, 3, 4),
        ),
    ]


def verification_text(verification: Verification) -> str:
    """Whether the outputs agree, on what, and how closely."""
    if verification.agree is None:
        return f"not compared: {verification.reason}"
    errors = [(check.agreement.max_abs_error or 0.0, check.kind) for check in verification.checks]
    largest, where = max(errors, key=lambda error: error[0], default=(0.0, ""))
    error = f", largest error {largest:.1e}" + (f" on {where}" if largest and len(errors) > 1 else "")
    kinds = ", ".join(kind for _, kind in errors)
    if verification.agree:
        return f"agree on {len(errors)} kind{'s' * (len(errors) != 1)} of input ({kinds}){error}"
    return f"DIFFER {verification.reason}"


def render_bisection(report: BisectReport) -> Parts:
    """The text of `onnxsmith bisect`."""
    if report.culprit is None:
        result = "no pass breaks the model"
        if report.reason is not None:
            result += f", as far as the graph tells; its outputs are not compared: {report.reason}"
        return [facts(report.model, [("pipeline", report.pipeline), ("result", result)])]
    return [
        facts(
            report.model,
            [
                ("pipeline", report.pipeline),
                ("culprit", f"{report.culprit}, run {report.step}"),
                ("reason", report.reason),
                ("part", report.part or ""),
                ("parts tried", report.probes),
            ],
        ),
        table(
            "The smallest part that shows it" if report.nodes else "No part shows it alone",
            "node",
            "operator",
            rows=list(zip(report.nodes, report.op_types, strict=True)),
        ),
    ]


def render_passes(listing: PassListing) -> Parts:
    """The text of `onnxsmith passes`."""
    return [
        table(
            "Passes",
            "pass",
            "exact",
            "options",
            "what it does",
            rows=[
                (
                    info.name,
                    "yes" if info.exact else "",
                    ", ".join(option.name for option in info.options),
                    info.problem or info.summary,
                )
                for info in listing.passes
            ],
        ),
        table(
            "Pipelines",
            "pipeline",
            "passes",
            "what it is for",
            rows=[(pipeline.name, len(pipeline.passes), pipeline.summary) for pipeline in listing.pipelines],
            right=(1,),
        ),
    ]


def render_pass(info: PassInfo) -> Parts:
    """The text of `onnxsmith passes NAME`."""
    return [
        facts(
            info.name,
            [
                ("does", info.summary),
                ("details", info.details),
                ("exact", "yes" if info.exact else "no: the order of float arithmetic may change"),
                ("from", info.source),
            ],
        ),
        table(
            "Options",
            "option",
            "type",
            "default",
            "what it is for",
            rows=[
                (option.name, option.type, "(must be given)" if option.required else option.default, option.description)
                for option in info.options
            ],
        ),
    ]


def _signed_bytes(number: int) -> str:
    if number == 0:
        return ""
    return f"{'-' if number < 0 else '+'}{format_bytes(abs(number))}"
