"""Which run of a pass made a model wrong: a binary search over the runs, each probe from the start."""

from __future__ import annotations

from collections.abc import Callable

from onnxsmith.graph_optimizer.pass_pipeline import PipelineResult, Rollback


def first_fault(result: PipelineResult, fault_at: Callable[[int], str | None]) -> Rollback:
    """The first run of a pass after which the model is wrong.

    Args:
        result: The passes' result, which is wrong; it has at least one step.
        fault_at: What is wrong with the model when only so many runs of passes happen, or None.
    """
    steps = result.steps
    low, high = 0, len(steps) - 1
    reason = None
    while low < high:
        middle = (low + high) // 2
        fault = fault_at(steps[middle].number + 1)
        if fault is None:
            low = middle + 1
        else:
            high, reason = middle, fault
    step = steps[low]
    return Rollback(
        name=step.name, number=step.number, reason=reason or fault_at(step.number + 1) or "the outputs differ"
    )
