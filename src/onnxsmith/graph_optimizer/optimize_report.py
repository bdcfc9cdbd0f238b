"""What the optimiser did to a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onnxsmith.graph_optimizer.agreement import Verification
from onnxsmith.graph_optimizer.pass_pipeline import Rollback, Step
from onnxsmith.graph_optimizer.passes.base import Note
from onnxsmith.records import Record


class PassTotal(Record):
    """All runs of one pass.

    Attributes:
        name: The pass.
        changes: How many changes it made.
        nodes_removed: How many nodes fewer; below 0 where it added some.
        bytes_removed: How many bytes of tensors fewer.
        seconds: Its time, runs that changed nothing included.
    """

    name: str
    changes: int
    nodes_removed: int
    bytes_removed: int
    seconds: float


class OptimizeReport(Record):
    """What the optimiser did.

    Attributes:
        model: The model's path or name.
        output: The file that was written.
        pipeline: The pipeline's name; `custom` where the passes were listed.
        opset_before: The default domain's version before.
        opset_after: And after.
        nodes_before: Nodes before, subgraphs included, Constant nodes not.
        nodes_after: Nodes after.
        op_counts_before: Nodes by operator before, Constant nodes too.
        op_counts_after: Nodes by operator after.
        size_before: Bytes on disk before, external data included.
        size_after: Bytes on disk after.
        passes: What each pass did, in the order of the pipeline.
        steps: Each run of a pass that changed something, in order.
        rolled_back: Passes that broke the model or its outputs, and were taken out.
        notes: Why rules that matched did not apply.
        interface_refined: Outputs whose shape is better known than before.
        verification: The comparison of the outputs with the original's; `agree` is None where there was none.
        unchanged: Why the output is the model as it was, or None where it is not.
        seconds: The time of everything.
    """

    model: str
    output: Path
    pipeline: str
    opset_before: int
    opset_after: int
    nodes_before: int
    nodes_after: int
    op_counts_before: dict[str, int]
    op_counts_after: dict[str, int]
    size_before: int
    size_after: int
    passes: tuple[PassTotal, ...]
    steps: tuple[Step, ...]
    rolled_back: tuple[Rollback, ...]
    notes: tuple[Note, ...]
    interface_refined: tuple[str, ...]
    verification: Verification
    unchanged: str | None
    seconds: float


def total_passes(names: Sequence[str], steps: Sequence[Step], seconds: dict[str, float]) -> tuple[PassTotal, ...]:
    """What each pass did over all its runs.

    Args:
        names: The passes in order.
        steps: Their runs that changed something.
        seconds: The time of each pass.
    """
    return tuple(
        PassTotal(
            name=name,
            changes=sum(step.changes for step in steps if step.name == name),
            nodes_removed=sum(step.nodes_removed for step in steps if step.name == name),
            bytes_removed=sum(step.bytes_removed for step in steps if step.name == name),
            seconds=seconds.get(name, 0.0),
        )
        for name in dict.fromkeys(names)
    )
