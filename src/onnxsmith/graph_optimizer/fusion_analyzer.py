"""Which fusions a model offers, and which of them a runtime really made, and at which level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from onnxsmith.graph_analysis.node_counter import NodeCounter
from onnxsmith.graph_analysis.patterns import PatternMatch, find_patterns
from onnxsmith.graph_optimizer.pass_pipeline import PassPipeline, Stage
from onnxsmith.graph_optimizer.passes.base import Note
from onnxsmith.graph_optimizer.passes.table import make_pass
from onnxsmith.graph_optimizer.pipelines import RECOGNITION, WEIGHTS
from onnxsmith.model import Model
from onnxsmith.records import Record

NEVER = "never"
"""Where a pattern went when it did not go."""


class OwnFusion(Record):
    """What one of our own passes does to a model.

    Attributes:
        name: The pass.
        applied: How many times it applies.
        notes: Where it matched and does not apply, node by node, with the reason.
        fault: Why it would be rolled back, or None.
    """

    name: str
    applied: int
    notes: tuple[Note, ...]
    fault: str | None


class FusionReport(Record):
    """What a model offers to fuse.

    Attributes:
        matches: The groups of nodes, as `find_patterns` found them.
        counts: How many there are of each pattern, the most frequent first.
        own: What the passes of our own optimiser that fuse and recognise do, measured on a copy of the model as it
            stands; those that have nothing to say are left out.
    """

    matches: tuple[PatternMatch, ...]
    counts: dict[str, int]
    own: tuple[OwnFusion, ...] = ()


class FusionComparison(Record):
    """What became of the patterns over several levels; counted in the levels' models, not expected.

    Attributes:
        levels: The labels in order; the first is what the others are held against.
        batch_normalizations: BatchNormalization nodes at each level.
        batch_normalizations_gone_at: The level at which they became fewer, "never", or None where there were none.
        patterns: How many matches of each pattern there are at each level.
        gone_at: The first level that has fewer of a pattern than a level before it, or "never". A pattern can come up
            at one level (Conv+Relu, once the BatchNormalization between is folded) and go at the next.
        fused_operators: At each level, the operators that the first does not have, and how many nodes are of them.
    """

    levels: tuple[str, ...]
    batch_normalizations: dict[str, int]
    batch_normalizations_gone_at: str | None
    patterns: dict[str, dict[str, int]]
    gone_at: dict[str, str]
    fused_operators: dict[str, dict[str, int]]


class FusionAnalyzer:
    """Finds the patterns of a model, and compares them between versions of it.

    Args:
        model: The model.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def find_patterns(self) -> FusionReport:
        """Finds what runtimes fuse, in the main graph and every subgraph, and what our own passes make of it."""
        matches = find_patterns(self._model)
        return FusionReport(matches=matches, counts=_count(matches), own=self._own())

    def _own(self) -> tuple[OwnFusion, ...]:
        names = (*RECOGNITION, *WEIGHTS)
        stage = Stage(tuple(map(make_pass, names)))
        result = PassPipeline([stage]).run(lambda: Model(self._model.ir.clone()))
        faults = {gone.name: gone.reason for gone in result.rolled_back}
        fusions = (
            OwnFusion(
                name=name,
                applied=sum(step.changes for step in result.steps if step.name == name),
                notes=tuple(note for note in result.notes if note.name == name),
                fault=faults.get(name),
            )
            for name in names
        )
        return tuple(fusion for fusion in fusions if fusion.applied or fusion.notes or fusion.fault)

    def compare_fusion(self, models: Mapping[str, Model]) -> FusionComparison:
        """Looks what became of the patterns.

        Args:
            models: Versions of the model by label, in order; the first is what the others are held against.
        """
        operators = {label: NodeCounter(model).counts() for label, model in models.items()}
        found = {label: _count(find_patterns(model)) for label, model in models.items()}
        levels = tuple(models)
        names = dict.fromkeys(name for counts in found.values() for name in counts)
        patterns = {name: {label: found[label].get(name, 0) for label in levels} for name in names}
        batch_norms = {label: operators[label].get("BatchNormalization", 0) for label in levels}
        return FusionComparison(
            levels=levels,
            batch_normalizations=batch_norms,
            batch_normalizations_gone_at=_gone_at(batch_norms) if any(batch_norms.values()) else None,
            patterns=patterns,
            gone_at={name: _gone_at(counts) for name, counts in patterns.items()},
            fused_operators={
                label: {op: count for op, count in counts.items() if op not in operators[levels[0]]}
                for label, counts in operators.items()
            },
        )


def _count(matches: Sequence[PatternMatch]) -> dict[str, int]:
    counts = Counter(match.pattern for match in matches)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _gone_at(counts: Mapping[str, int]) -> str:
    most = 0
    for label, count in counts.items():
        if count < most:
            return label
        most = max(most, count)
    return NEVER
