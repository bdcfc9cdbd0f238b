"""Finds the pass that breaks a model, and the smallest part of the model that shows it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from onnxsmith.config import Config
from onnxsmith.errors import OnnxsmithError
from onnxsmith.graph_optimizer.agreement import compare_outputs
from onnxsmith.graph_optimizer.editor import label
from onnxsmith.graph_optimizer.examiner import Candidate, Examiner
from onnxsmith.graph_optimizer.extraction import boundary, extract, with_outputs
from onnxsmith.graph_optimizer.instruments import fault_of
from onnxsmith.graph_optimizer.numeric_check import STRICTNESS, NumericCheck
from onnxsmith.graph_optimizer.pass_pipeline import Rollback
from onnxsmith.graph_optimizer.passes.base import Pass
from onnxsmith.graph_optimizer.pipelines import passes_of
from onnxsmith.graph_optimizer.structure import find_fault
from onnxsmith.model import Model, check_native
from onnxsmith.records import Progress, Record, no_progress

logger = logging.getLogger(__name__)

_MOST_PROBES = 80


class BisectReport(Record):
    """What is to blame for a wrong result.

    Attributes:
        model: The model.
        pipeline: The pipeline.
        culprit: The pass that breaks the model, or None where none does.
        step: Which run of a pass it was, from 0.
        reason: What is wrong after it; where no pass is to blame, why the outputs were not compared, or None.
        nodes: The nodes of the smallest part that shows it, in order; empty where no part alone does.
        op_types: Their operators.
        part: The file with that part, or None.
        probes: How many parts were tried.
    """

    model: str
    pipeline: str
    culprit: str | None
    step: int | None = None
    reason: str | None = None
    nodes: tuple[str, ...] = ()
    op_types: tuple[str, ...] = ()
    part: Path | None = None
    probes: int = 0


def bisect(
    model: Model,
    config: Config,
    *,
    feeds: Mapping[str, Any] | None = None,
    output: Path | None = None,
    progress: Progress = no_progress,
) -> BisectReport:
    """Looks for the first run of a pass after which a model is wrong, and for the smallest part that shows it.

    Args:
        model: The model.
        config: `optimization` (the passes), `inference`, `limits`, `dims` and `seed` are used.
        feeds: Inputs to run on; what is not given is sampled.
        output: Where the part goes as a model.
        progress: Told of the steps.

    Raises:
        InvalidModelError: The model is invalid.
        OutputError: The part cannot be written.
    """
    if output is not None:
        model.forbid_overwrite(output)
    check_native(model, config.limits)
    examiner = Examiner(config, model, feeds or {}, progress=progress)
    skip = frozenset(config.optimization.skip)
    candidate = examiner.examine(examiner.run(skip))
    blamed = _blamed(examiner, candidate, skip)
    if blamed is None:
        return BisectReport(
            model=model.name, pipeline=examiner.name, culprit=None, reason=candidate.verification.reason
        )
    before = examiner.run(skip, blamed.number).model
    step = next(step for step in passes_of(examiner.stages) if step.name == blamed.name)
    wrong = next((check.kind for check in candidate.verification.checks if not check.agreement.agree), None)
    search = _Search(before, step, examiner.numbers, examiner.numbers.feeds_of(wrong), progress)
    places = search.smallest()
    nodes = list(before.ir.graph)
    chosen = [nodes[place] for place in places]
    if output is not None and chosen:
        search.part(places).save(output)
    return BisectReport(
        model=model.name,
        pipeline=examiner.name,
        culprit=blamed.name,
        step=blamed.number,
        reason=blamed.reason,
        nodes=tuple(map(label, chosen)),
        op_types=tuple(node.op_type for node in chosen),
        part=output if chosen else None,
        probes=search.probes,
    )


def _blamed(examiner: Examiner, candidate: Candidate, skip: frozenset[str]) -> Rollback | None:
    if candidate.result.rolled_back:
        return candidate.result.rolled_back[0]
    return examiner.blame(candidate.result, skip) if candidate.fault is not None and candidate.result.steps else None


class _Search:
    """Looks for a small set of nodes on which a pass goes wrong.

    Args:
        model: The model before the pass.
        step: The pass.
        numbers: Runs models.
        feeds: Inputs that show the fault.
        progress: Told of the parts that are tried.
    """

    def __init__(
        self, model: Model, step: Pass, numbers: NumericCheck, feeds: Mapping[str, Any], progress: Progress
    ) -> None:
        self.model = model
        self.step = step
        self.numbers = numbers
        self.feeds = feeds
        self.probes = 0
        self._progress = progress

    def smallest(self) -> list[int]:
        """The places of the nodes: a window that is cut from both ends, then thinned; empty where no part shows it."""
        count = len(self.model.ir.graph)
        if not self._shows(range(count)):
            return []
        end = _least(1, count, lambda end: self._shows(range(end)))
        start = end - _least(1, end, lambda length: self._shows(range(end - length, end)))
        places = list(range(start, end))
        chunk = max(1, len(places) // 2)
        while self.probes < _MOST_PROBES:
            reduced = False
            for first in range(0, len(places), chunk):
                rest = places[:first] + places[first + chunk :]
                if rest and self._shows(rest):
                    places, reduced = rest, True
                    break
            if not reduced:
                if chunk == 1:
                    break
                chunk = max(1, chunk // 2)
        return places

    def part(self, places: list[int]) -> Model:
        """The nodes at some places as a model."""
        incoming, outgoing = boundary(self.model, set(places))
        return extract(self.model, set(places), self._contents([*incoming, *outgoing]))

    def _shows(self, places: list[int] | range) -> bool:
        """Whether the pass goes wrong on some nodes alone."""
        self.probes += 1
        self._progress(f"trying {len(places)} nodes", self.probes, _MOST_PROBES)
        chosen = set(places)
        incoming, outgoing = boundary(self.model, chosen)
        if not outgoing:
            return False
        try:
            contents = self._contents([*incoming, *outgoing])
            part = extract(self.model, chosen, contents)
            feeds = {name: contents[name] for name in incoming}
            expected = self.numbers.outputs(part, feeds)
        except (OnnxsmithError, KeyError):
            return False  # it cannot be cut out here
        try:
            result = self.step.run(Model(part.ir.clone())).model
            if find_fault(result.ir) is not None:
                return True
            got = self.numbers.outputs(result, feeds)
        except Exception as error:  # noqa: BLE001 - whatever a pass raises shows that it is at fault
            logger.debug("the pass fails on the part: %s", fault_of(error))
            return True
        return not compare_outputs(expected, got, strictness=STRICTNESS).agree

    def _contents(self, names: list[str]) -> dict[str, Any]:
        """What some values of the model hold when it runs on the inputs that show the fault."""
        feeds = self.feeds
        asked = [name for name in dict.fromkeys(names) if name not in feeds]
        held = dict(self.numbers.outputs(with_outputs(self.model, asked), feeds)) if asked else {}
        return {**{name: feeds[name] for name in names if name in feeds}, **held}


def _least(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The least number for which something holds that holds for the highest, if it holds from there on."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high
