"""What is done around each pass."""

import onnx
import pytest
from core_helpers import BreaksStructure, DropIdentity, SwapSub, model_of

from onnxsmith.errors import OutputError
from onnxsmith.graph_optimizer.instruments import (
    Dump,
    Instrument,
    NumbersCheck,
    Only,
    PassFault,
    StructureCheck,
    fault_of,
)
from onnxsmith.graph_optimizer.pass_pipeline import PassPipeline, Stage

TEXT = "g (float[2] x) => (float[2] y) { a = Identity(x) b = Sub(a, x) y = Relu(b) }"


def test_a_bare_instrument_does_nothing():
    step = DropIdentity()
    assert Instrument().should_run(0, step)
    assert Instrument().after(0, step, step.run(model_of(TEXT))) is None


def test_the_structure_is_checked():
    model = model_of(TEXT)
    StructureCheck().after(0, DropIdentity(), DropIdentity().run(model))
    with pytest.raises(PassFault, match="not what Relu takes"):
        StructureCheck().after(1, BreaksStructure(), BreaksStructure().run(model))


def test_the_numbers_are_checked():
    result = DropIdentity().run(model_of(TEXT))
    NumbersCheck(lambda model: None).after(0, DropIdentity(), result)
    with pytest.raises(PassFault, match="off by one"):
        NumbersCheck(lambda model: "off by one").after(0, DropIdentity(), result)


def test_the_model_is_saved_after_each_pass_that_changed_it(tmp_path):
    stages = [Stage((DropIdentity(), DropIdentity(), SwapSub()))]
    PassPipeline(stages, [Dump(tmp_path / "new" / "dump", model_of(TEXT))]).run(lambda: model_of(TEXT))
    files = sorted((tmp_path / "new" / "dump").iterdir())
    assert [file.name for file in files] == ["00-drop-identity.onnx", "02-swap-sub.onnx"]
    assert [node.op_type for node in onnx.load(files[0]).graph.node] == ["Sub", "Relu"]
    assert list(onnx.load(files[0]).graph.node[0].input) == ["x", "x"]


@pytest.mark.parametrize(
    ("only", "runs"),
    [(Only(), [True, True]), (Only(1), [True, False]), (Only(skip=frozenset({"drop-identity"})), [False, False])],
)
def test_only_some_runs_happen(only, runs):
    assert [only.should_run(number, DropIdentity()) for number in range(2)] == runs


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PassFault("wrong"), "wrong"),
        (OutputError("no room.\nmore", "a hint"), "no room."),
        (KeyError("a"), "KeyError: 'a'"),
        (ValueError("one\ntwo"), "ValueError: one"),
    ],
)
def test_faults_are_one_line(error, text):
    assert fault_of(error) == text
