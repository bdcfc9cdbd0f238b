"""Stages run until they settle, and a pass that breaks the model is as if it had not been there."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from core_helpers import (
    BreaksStructure,
    DoubleIdentity,
    DropIdentity,
    Outside,
    Raises,
    floats,
    model_of,
    op_types,
    run,
)

from onnxsmith.graph_optimizer.instruments import Instrument, PassFault
from onnxsmith.graph_optimizer.pass_pipeline import PassPipeline, Stage
from onnxsmith.graph_optimizer.passes.rules import GraphPass

TEXT = (
    "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Identity(x) b = Identity(a) c = Add(b, w) y = Relu(c) }"
)


def fresh():
    return model_of(TEXT)


def pipeline(*passes, repeat=False, instruments=()):
    return PassPipeline([Stage(passes, repeat)], instruments)


@dataclass(frozen=True)
class Countdown(GraphPass):
    """Changes something as often as it is told to, one change a run."""

    name: ClassVar[str] = "countdown"
    runs: int = 3

    def edit(self, editor):
        left = int(editor.model.metadata_props.get("left", self.runs))
        if left:
            editor.model.metadata_props["left"] = str(left - 1)
            editor.count()


def test_steps_have_what_each_run_did():
    result = pipeline(DropIdentity()).run(fresh)
    (step,) = result.steps
    assert (step.number, step.name, step.options, step.changes) == (0, "drop-identity", {"most": 1000}, 2)
    assert (step.nodes, step.nodes_removed) == (2, 2)
    assert (step.bytes, step.bytes_removed) == (8, 0)
    assert step.seconds == result.seconds["drop-identity"]
    assert result.runs == 1
    assert op_types(result.model) == ["Add", "Relu"]
    np.testing.assert_array_equal(run(result.model, {"x": floats(1, -4)})[0], [2, 0])


def test_bytes_that_a_pass_frees_are_counted():
    from onnxsmith.graph_optimizer.passes.dead_code import EliminateDeadCode

    text = TEXT.replace("<float[2] w = {1, 2}>", "<float[2] w = {1, 2}, float[3] unused = {1, 2, 3}>")
    (step,) = pipeline(EliminateDeadCode()).run(lambda: model_of(text)).steps
    assert (step.nodes_removed, step.bytes_removed, step.bytes) == (0, 12, 8)


def test_a_stage_runs_until_nothing_changes():
    result = pipeline(Countdown(3), Countdown(3), repeat=True).run(fresh)
    # A pass that nothing has changed anything for since its last run does not run again.
    assert [step.number for step in result.steps] == [0, 1, 2]
    assert result.runs == 4
    assert set(result.seconds) == {"countdown"}


def test_a_stage_that_is_not_repeated_runs_once():
    assert [step.number for step in pipeline(Countdown(3)).run(fresh).steps] == [0]


def test_a_pass_that_never_settles_is_stopped():
    result = pipeline(DoubleIdentity(most=1), DoubleIdentity(most=1), repeat=True).run(fresh)
    assert len(result.steps) == 16
    np.testing.assert_array_equal(run(result.model, {"x": floats(1, -4)})[0], [2, 0])


def test_a_pass_that_raises_is_rolled_back_and_the_rest_goes_on():
    result = pipeline(Raises(), DropIdentity()).run(fresh)
    (gone,) = result.rolled_back
    assert (gone.name, gone.number, gone.reason) == ("raises", 0, "ValueError: planted")
    assert [step.name for step in result.steps] == ["drop-identity"]
    assert op_types(result.model) == ["Add", "Relu"]


def test_a_pass_that_breaks_the_structure_is_rolled_back():
    result = pipeline(DropIdentity(), BreaksStructure(), repeat=True).run(fresh)
    (gone,) = result.rolled_back
    assert (gone.name, gone.number) == ("breaks-structure", 1)
    assert gone.reason == "node 'Relu(y)': its inputs and outputs are not what Relu takes"
    np.testing.assert_array_equal(run(result.model, {"x": floats(1, -4)})[0], [2, 0])


def test_two_bad_passes_are_both_rolled_back():
    result = pipeline(Raises(), BreaksStructure(), DropIdentity()).run(fresh)
    assert [gone.name for gone in result.rolled_back] == ["raises", "breaks-structure"]
    assert op_types(result.model) == ["Add", "Relu"]


def test_a_pass_that_makes_another_model_is_rolled_back_without_starting_again():
    made = []

    def counted():
        made.append(fresh())
        return made[-1]

    result = pipeline(DropIdentity(), Outside(fails=True), Countdown(1)).run(counted)
    assert len(made) == 1
    (gone,) = result.rolled_back
    assert (gone.name, gone.reason) == ("outside", "RuntimeError: it died")
    assert [step.name for step in result.steps] == ["drop-identity", "countdown"]


def test_a_model_that_a_pass_makes_is_carried_on():
    result = pipeline(Outside(), Countdown(1)).run(fresh)
    assert [step.name for step in result.steps] == ["outside", "countdown"]
    assert op_types(result.model) == ["Add", "Relu"]
    assert result.model.ir.metadata_props["left"] == "0"


def test_notes_are_those_of_the_last_run():
    text = "g (float[2] x) => (float[2] y) { a = Identity(x) y = Identity(a) }"
    result = pipeline(DropIdentity(), Countdown(2), repeat=True).run(lambda: model_of(text))
    (note,) = result.notes
    assert (note.name, note.node, note.op_type, note.reason) == (
        "drop-identity",
        "Identity(y)",
        "Identity",
        "it is an output",
    )


@pytest.mark.parametrize(("limit", "steps"), [(0, []), (1, ["drop-identity"]), (2, ["drop-identity", "countdown"])])
def test_a_limit_stops_after_so_many_runs(limit, steps):
    result = pipeline(DropIdentity(), Countdown(3), repeat=True).run(fresh, limit=limit)
    assert [step.name for step in result.steps] == steps


def test_numbers_stay_the_same_whatever_is_skipped():
    """What bisection counts by."""
    result = pipeline(DropIdentity(), Countdown(3), repeat=True).run(fresh, skip=frozenset({"drop-identity"}))
    assert [(step.name, step.number) for step in result.steps] == [("countdown", 1)]
    assert "drop-identity" not in result.seconds
    assert "Identity" in op_types(result.model)


def test_instruments_stand_around_each_pass():
    seen = []

    class Watch(Instrument):
        def should_run(self, number, step):
            return step.name != "raises"

        def after(self, number, step, result):
            seen.append((number, step.name, result.changes))
            if result.model.ir.metadata_props.get("left") == "1":
                raise PassFault("enough")

    result = pipeline(Raises(), DropIdentity(), Countdown(2), instruments=[Watch()]).run(fresh)
    assert seen[:2] == [(1, "drop-identity", 2), (2, "countdown", 1)]
    assert [(gone.name, gone.reason) for gone in result.rolled_back] == [("countdown", "enough")]


def test_progress_names_each_pass_once():
    told = []
    pipeline(DropIdentity(), Countdown(3), repeat=True).run(fresh, progress=lambda *args: told.append(args))
    assert told == [("drop-identity", 0, 2), ("countdown", 1, 2)]
