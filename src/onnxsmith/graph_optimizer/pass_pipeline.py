"""Runs passes one after another, stage by stage, under instruments; a pass that breaks the model is rolled back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from onnxsmith.graph_optimizer.instruments import DumpError, Instrument, Only, StructureCheck, fault_of
from onnxsmith.graph_optimizer.passes.base import Note, Pass
from onnxsmith.model import Model
from onnxsmith.model.weights import holdings
from onnxsmith.records import Progress, Record, no_progress

logger = logging.getLogger(__name__)

_MOST_ROUNDS = 8


@dataclass(frozen=True)
class Stage:
    """Passes that run in order.

    Attributes:
        passes: The passes.
        repeat: Run them again until none of them changes anything.
    """

    passes: tuple[Pass, ...]
    repeat: bool = False


class Step(Record):
    """One run of a pass that changed something.

    Attributes:
        number: Which run of a pass it was, over all rounds.
        name: The pass.
        options: Its options.
        changes: How many changes it counted.
        nodes: Nodes after it, subgraphs included.
        nodes_removed: How many fewer than before it; below 0 where there are more.
        bytes: Bytes of tensors after it.
        bytes_removed: How many fewer than before it.
        seconds: Its time.
    """

    number: int
    name: str
    options: dict[str, Any]
    changes: int
    nodes: int
    nodes_removed: int
    bytes: int
    bytes_removed: int
    seconds: float


class Rollback(Record):
    """A pass that was taken out.

    Attributes:
        name: The pass.
        number: Which run of a pass it was.
        reason: What it did wrong.
    """

    name: str
    number: int
    reason: str


@dataclass(frozen=True)
class PipelineResult:
    """What the passes made of a model.

    Attributes:
        model: The model.
        steps: The runs of passes that changed something, in order.
        seconds: The time of each pass, those that changed nothing too.
        notes: What matched and did not apply, in the last run of each pass.
        rolled_back: The passes that were taken out.
        runs: How many runs of passes there were.
    """

    model: Model
    steps: tuple[Step, ...]
    seconds: dict[str, float]
    notes: tuple[Note, ...]
    rolled_back: tuple[Rollback, ...]
    runs: int


class PassPipeline:
    """Stages of passes.

    Args:
        stages: The stages.
        instruments: What is done around each pass, after the check of the structure.
    """

    def __init__(self, stages: Sequence[Stage], instruments: Sequence[Instrument] = ()) -> None:
        self.stages = tuple(stages)
        self.instruments = (StructureCheck(), *instruments)

    def run(
        self,
        fresh: Callable[[], Model],
        *,
        skip: frozenset[str] = frozenset(),
        limit: int | None = None,
        progress: Progress = no_progress,
    ) -> PipelineResult:
        """Runs the passes.

        Passes work in place and the same way each time, so a pass is rolled back by starting again without it.

        Args:
            fresh: Gives the model, each time one that nobody else holds.
            skip: Passes that do not run.
            limit: How many runs of passes there are at most.
            progress: Told of the passes.
        """
        rolled_back: list[Rollback] = []
        while True:
            only = Only(limit, skip | {gone.name for gone in rolled_back})
            try:
                return _Attempt((*self.instruments, only), rolled_back, progress).run(fresh(), self.stages)
            except _BrokenBy as broken:
                logger.warning("%s is rolled back: %s", broken.rollback.name, broken.rollback.reason)
                rolled_back.append(broken.rollback)


class _BrokenBy(Exception):  # noqa: N818 - an answer, not an error
    def __init__(self, rollback: Rollback) -> None:
        super().__init__(rollback)
        self.rollback = rollback


class _Attempt:
    def __init__(self, instruments: Sequence[Instrument], rolled_back: Sequence[Rollback], progress: Progress) -> None:
        self._instruments = instruments
        self._rolled_back = list(rolled_back)
        self._progress = progress
        self._steps: list[Step] = []
        self._seconds: dict[str, float] = {}
        self._notes: dict[str, tuple[Note, ...]] = {}
        self._number = 0

    def run(self, model: Model, stages: Sequence[Stage]) -> PipelineResult:
        self._nodes, self._bytes = _measure(model)
        total = sum(len(stage.passes) for stage in stages)
        done = 0
        for stage in stages:
            settled: dict[int, int] = {}  # by a pass's place in the stage, how many changes there had been after it
            changes = 0
            for round_number in range(_MOST_ROUNDS if stage.repeat else 1):
                before = changes
                for place, step in enumerate(stage.passes):
                    if round_number == 0:
                        self._progress(step.name, done, total)
                        done += 1
                    if settled.get(place) == changes:
                        continue  # nothing changed since it last had nothing to do
                    model, made = self._run_pass(step, model)
                    changes += made
                    settled[place] = changes
                if changes == before:
                    break
        notes = tuple(note for notes in self._notes.values() for note in notes)
        return PipelineResult(model, tuple(self._steps), self._seconds, notes, tuple(self._rolled_back), self._number)

    def _run_pass(self, step: Pass, model: Model) -> tuple[Model, int]:
        if not all(instrument.should_run(self._number, step) for instrument in self._instruments):
            self._number += 1
            return model, 0
        number, self._number = self._number, self._number + 1
        start = time.perf_counter()
        try:
            result = step.run(model)
            seconds = time.perf_counter() - start
            if result.changed:
                for instrument in self._instruments:
                    instrument.after(number, step, result)
        except DumpError:
            raise
        except Exception as error:
            logger.debug("%s failed", step.name, exc_info=True)
            rollback = Rollback(name=step.name, number=number, reason=fault_of(error))
            if step.in_place:
                raise _BrokenBy(rollback) from error
            self._rolled_back.append(rollback)
            return model, 0
        self._seconds[step.name] = self._seconds.get(step.name, 0.0) + seconds
        self._notes[step.name] = result.notes
        if result.changed:
            nodes, size = _measure(result.model)
            self._steps.append(
                Step(
                    number=number,
                    name=step.name,
                    options=step.options(),
                    changes=result.changes,
                    nodes=nodes,
                    nodes_removed=self._nodes - nodes,
                    bytes=size,
                    bytes_removed=self._bytes - size,
                    seconds=seconds,
                )
            )
            self._nodes, self._bytes = nodes, size
        return result.model, result.changes


def _measure(model: Model) -> tuple[int, int]:
    """The nodes of a model, and the bytes of its tensors."""
    nodes = sum(len(graph) for _, graph in model.graphs())
    held = holdings(model.ir)
    return nodes, held.embedded + sum(tensor.nbytes for tensor in held.external)
