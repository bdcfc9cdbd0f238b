"""`onnxsmith optimize` by our own passes, `bisect` and `passes`: text, JSON, files and exit codes."""

import os
import sys
from pathlib import Path

import onnx
import pytest

from onnxsmith.graph_optimizer.passes.table import BUILT_IN
from onnxsmith.graph_optimizer.pipelines import PIPELINES

WRONG = '''
from dataclasses import dataclass
from typing import ClassVar

from onnxsmith import RulePass


@dataclass(frozen=True)
class Wrong(RulePass):
    """Swaps what Mul multiplies for its square."""

    name: ClassVar[str] = "wrong"
    operators: ClassVar[frozenset[str]] = frozenset({"Mul"})

    def rewrite(self, node, editor):
        if node.inputs[0] is node.inputs[1]:
            return editor.decline(node, "it is a square already")
        node.replace_input_with(1, node.inputs[0])
        return True
'''


@pytest.fixture
def wrong(monkeypatch, tmp_path):
    """A pass that breaks a model."""
    (tmp_path / "wrong_pass.py").write_text(WRONG)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(BUILT_IN, "wrong", "wrong_pass:Wrong")
    yield
    sys.modules.pop("wrong_pass", None)


@pytest.fixture
def flatten(write_model):
    """Gelu written out, at an opset that has no Gelu."""
    body = "d = Div(x, root) e = Erf(d) s = Add(e, one) m = Mul(x, s) h = Mul(m, half) i = Identity(h) y = Relu(i)"
    constants = "float root = {1.41421354}, float one = {1}, float half = {0.5}"
    return write_model(
        '<ir_version: 8, opset_import: ["": 17]>\n'
        f"g (float[batch, 4] x) => (float[batch, 4] y) <{constants}> {{ {body} }}",
        "gelu.onnx",
    )


def ops(path):
    return [node.op_type for node in onnx.load(path).graph.node]


def test_the_default_pipeline_in_text(cli, classifier):
    outcome = cli("optimize", classifier, "-o", "out.onnx")
    assert outcome.code == 0, outcome.err
    assert ops("out.onnx") == ["Mul", "Relu"]
    lines = [line.split() for line in outcome.out.splitlines()]
    assert lines[0] == ["out.onnx"]
    assert ["pipeline", "default"] in lines
    assert ["nodes", "3", "→", "2", "(without", "Constant)"] in lines
    assert "agree on 6 kinds of input (normal, uniform, zeros, large, nan, other sizes)" in outcome.out
    assert any(line[:3] == ["eliminate-noops", "1", "-1"] for line in lines)
    assert "Why not" not in outcome.out
    assert outcome.err == ""


def test_the_report_in_json(cli, classifier):
    report = cli("optimize", classifier, "-o", "out.onnx", "--output-format", "json").json
    assert report["version"] == 1
    assert (report["nodes_before"], report["nodes_after"], report["pipeline"]) == (3, 2, "default")
    assert report["verification"]["agree"] is True
    assert report["output"] == "out.onnx"
    ours = {step.name for stage in PIPELINES["default"].make() for step in stage.passes}
    assert {total["name"] for total in report["passes"]} == ours
    assert report["steps"][0]["name"] == "eliminate-noops"
    assert (report["rolled_back"], report["notes"], report["unchanged"]) == ([], [], None)


def test_passes_are_listed_and_skipped(cli, classifier):
    report = cli(
        "optimize", classifier, "-o", "o.onnx", "--passes", "eliminate-dead-code,eliminate-noops", "--skip",
        "eliminate-noops", "--output-format", "json",
    ).json  # fmt: skip
    assert report["pipeline"] == "custom"
    assert report["unchanged"] == "no pass found anything to do"
    assert ops("o.onnx") == ["Identity", "Mul", "Relu"]


def test_why_not_is_said_node_by_node_where_asked(cli, flatten):
    command = ("optimize", flatten, "-o", "o.onnx", "--no-verify")
    outcome = cli(*command, "--explain")
    assert "Why not" in outcome.out
    row = next(line for line in outcome.out.splitlines() if "recognize-gelu" in line)
    assert "Gelu needs opset 20, the model has 17" in row
    assert "not compared: verification is off" in outcome.out
    assert cli(*command, "--output-format", "json").json["notes"] == []
    notes = cli(*command, "--explain", "--output-format", "json").json["notes"]
    assert {(note["name"], note["op_type"]) for note in notes} >= {("recognize-gelu", "Mul")}


def test_another_opset_has_more_operators(cli, flatten):
    outcome = cli("optimize", flatten, "-o", "o.onnx", "--opset", 20)
    assert outcome.code == 0, outcome.err
    assert ops("o.onnx") == ["Gelu", "Relu"]
    assert [entry.version for entry in onnx.load("o.onnx").opset_import] == [20]
    assert "17 → 20" in outcome.out
    assert "agree on" in outcome.out


def test_a_target_may_have_operators_of_its_own(cli, flatten):
    assert cli("optimize", flatten, "-o", "o.onnx", "--target", "ort-cpu").code == 0
    assert ops("o.onnx") == ["Gelu", "Relu"]
    assert onnx.load("o.onnx").graph.node[0].domain == "com.microsoft"
    words = cli("optimize", flatten, "-o", "o.onnx", "--target", "qnn-htp:v75").out.split()
    assert words[words.index("pipeline") + 1] == "qnn-htp"


def test_dimensions_are_fixed_and_renamed(cli, classifier):
    for argument, expected in (("batch=1", 1), ("batch=n", "n")):
        assert cli("optimize", classifier, "-o", "o.onnx", "--dim", argument).code == 0
        dim = onnx.load("o.onnx").graph.output[0].type.tensor_type.shape.dim[0]
        assert (dim.dim_value or dim.dim_param) == expected


def test_nodes_say_where_they_come_from_unless_stripped(cli, flatten):
    for options, expected in (((), {"recognize-gelu"}), (("--strip-metadata",), set())):
        arguments = ("--opset", 20, "--set", "optimization.max_size_ratio=10", *options)
        assert cli("optimize", flatten, "-o", "o.onnx", *arguments).code == 0
        nodes = onnx.load("o.onnx").graph.node
        assert {entry.value for node in nodes for entry in node.metadata_props} == expected


def test_the_model_after_each_pass_is_dumped(cli, flatten):
    assert cli("optimize", flatten, "-o", "o.onnx", "--opset", 20, "--dump", "steps").code == 0
    files = sorted(Path("steps").iterdir())
    assert files[0].name == "00-convert-opset.onnx"
    assert any("recognize-gelu" in file.name for file in files)
    for file in files:
        onnx.checker.check_model(onnx.load(file))


@pytest.mark.parametrize("options", [(), ("--check-each",)])
def test_a_pass_that_breaks_the_model_is_rolled_back_and_exits_with_0(cli, classifier, wrong, options):
    outcome = cli("optimize", classifier, "-o", "o.onnx", "--passes", "wrong,eliminate-noops", *options)
    assert outcome.code == 0, outcome.err
    assert ops("o.onnx") == ["Mul", "Relu"]
    assert onnx.load("o.onnx").graph.node[0].input[1] == "w"
    rolled_back = outcome.out.split("Rolled back\n")[1]
    assert rolled_back.startswith("- wrong: ")
    assert "output 'y'" in rolled_back.replace("\n", " ")
    assert "agree on" in outcome.out


def test_bisect_names_the_pass_and_saves_the_part(cli, classifier, wrong):
    listed = ("--passes", "eliminate-noops,wrong")
    outcome = cli("bisect", classifier, *listed, "-o", "part.onnx")
    assert outcome.code == 1
    assert outcome.err == "failed: the pass wrong breaks the model.\n"
    lines = [line.split() for line in outcome.out.splitlines()]
    assert ["culprit", "wrong,", "run", "1"] in lines
    assert ["part", "part.onnx"] in lines
    assert ops("part.onnx") == ["Mul"]
    report = cli("bisect", "part.onnx", *listed, "--output-format", "json").json
    assert (report["culprit"], report["op_types"]) == ("wrong", ["Mul"])
    assert "- wrong: " in cli("optimize", "part.onnx", "-o", "o.onnx", "--passes", "wrong").out


def test_bisect_finds_nothing_where_nothing_is_wrong(cli, classifier):
    outcome = cli("bisect", classifier)
    assert (outcome.code, outcome.err) == (0, "")
    assert "no pass breaks the model" in outcome.out
    assert cli("bisect", classifier, "--passes", "eliminate-noops", "--output-format", "json").json["culprit"] is None


def test_passes_lists_every_pass_and_pipeline(cli):
    outcome = cli("passes")
    assert outcome.code == 0, outcome.err
    words = {line.split()[0] for line in outcome.out.splitlines() if line.strip()}
    assert set(BUILT_IN) | set(PIPELINES) <= words
    report = cli("passes", "--output-format", "json").json
    assert [entry["name"] for entry in report["passes"]] == list(BUILT_IN)
    assert [entry["name"] for entry in report["pipelines"]] == list(PIPELINES)


def test_passes_describes_one(cli):
    outcome = cli("passes", "convert-opset")
    assert outcome.code == 0
    assert "(must be given)" in outcome.out or "opset" in outcome.out
    report = cli("passes", "fold-batch-norm", "--output-format", "json").json
    assert (report["name"], report["exact"], report["source"]) == ("fold-batch-norm", False, "built-in")


def test_a_broken_plugin_stays_listed_with_the_reason(cli, monkeypatch):
    from importlib.metadata import EntryPoint

    from onnxsmith.graph_optimizer.passes import table

    point = EntryPoint("broken-plugin", "no_such_module:Pass", table.GROUP)
    monkeypatch.setattr(table, "plugins", lambda: {"broken-plugin": point})
    outcome = cli("passes")
    assert outcome.code == 0
    (row,) = (line for line in outcome.out.splitlines() if "broken-plugin" in line)
    assert "cannot be" in row
    outcome = cli("passes", "broken-plugin")
    assert outcome.code == 1
    assert outcome.err.startswith("error: the pass 'broken-plugin' (no_such_module:Pass) cannot be loaded: No module")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "give --output FILE, or --output-dir FOLDER"),
        (("-o", "a.onnx", "--output-dir", "b"), "give --output FILE, or --output-dir FOLDER"),
        (("-o", "a.onnx", "--pipeline", "exact", "--target", "tvm"), "give one of --pipeline, --target and --passes"),
        (("-o", "a.onnx", "--pipeline", "exact", "--passes", "eliminate-noops"), "give one of"),
        (("-o", "a.onnx", "--target", "tvm", "--passes", "eliminate-noops"), "give one of"),
        *(
            (("-o", "a.onnx", "--level", "ORT_ENABLE_BASIC", *more), "runs none of our passes")
            for more in (
                ("--passes", "eliminate-noops"), ("--pipeline", "exact"), ("--target", "tvm"), ("--skip", "fold-pad"),
                ("--opset", "20"), ("--explain",), ("--dump", "d"), ("--no-verify",), ("--check-each",),
                ("--strip-metadata",),
            )
        ),
        (("--output-dir", "b", "--explain"), "runs none of our passes"),
        (("-o", "a.onnx", "--pipeline", "defualt"), "Did you mean 'default'?"),
        (("-o", "a.onnx", "--target", "tensort"), "Did you mean 'tensorrt'?"),
        (("-o", "a.onnx", "--passes", "fold-constant"), "Did you mean 'fold-constants'?"),
        (("-o", "a.onnx", "--skip", "fold-constant"), "Did you mean 'fold-constants'?"),
        (("-o", "a.onnx", "--passes", "recognize-gelu{domian=standard}"), "Did you mean 'domain'?"),
        (("-o", "a.onnx", "--passes", "recognize-gelu{domain=nobody}"), "option 'domain'"),
        (("-o", "a.onnx", "--passes", "recognize-gelu{"), "{option=value}"),
        (("-o", "a.onnx", "--opset", "0"), "opset"),
        (("-o", "a.onnx", "--opset", "99"), "opset 99 is not one of 7 to "),
        (("-o", "a.onnx", "--passes", ""), "--passes names no pass"),
        (("-o", "a.onnx", "--passes", " ,"), "--passes names no pass"),
        (("-o", "a.onnx", "--opset", "20", "--skip", "convert-opset"), "convert-opset is skipped, and needed"),
        (("-o", "a.onnx", "--dim", "batch=1", "--skip", "specialize-shapes"), "specialize-shapes is skipped"),
        (("-o", "a.onnx", "--dim", f"batch={2**63}"), "a file holds 9223372036854775807 at most"),
        (("-o", "a.onnx", "--dim", f"batch={2**63 - 1}"), "there is not enough memory"),
        (("-o", "a" * 300), "cannot be written: File name too long"),
        (("-o", "a.onnx", "--dim", "bacth=1"), "Did you mean 'batch'?"),
        (("-o", "a.onnx", "--dim", "batch"), "NAME=SIZE"),
        (("-o", "a.onnx", "--dim", "batch=0"), "at least 1"),
        (("-o", "a.onnx", "--input", "x=[[1, 2]]"), "shape"),
        (("-o", "classifier.onnx",), "never overwritten"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else "",
)  # fmt: skip
def test_a_bad_call_is_one_clear_error_and_writes_nothing(cli, classifier, options, expected):
    Path("classifier.onnx").write_bytes(classifier.read_bytes())
    outcome = cli("optimize", "classifier.onnx", *options)
    assert outcome.code == 1, outcome.out + outcome.err
    assert outcome.out == ""
    assert expected in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err
    assert [path.name for path in Path().iterdir()] == ["classifier.onnx"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--pipeline", "exact", "--target", "tvm"), "give one of --pipeline, --target and --passes"),
        (("--passes", "nothing"), "there is no pass 'nothing'"),
        (("-o", "classifier.onnx"), "never overwritten"),
    ],
)
def test_a_bad_call_of_bisect(cli, classifier, options, expected):
    Path("classifier.onnx").write_bytes(classifier.read_bytes())
    outcome = cli("bisect", "classifier.onnx", *options)
    assert outcome.code == 1
    assert expected in " ".join(outcome.err.split())


def test_an_unknown_pass_is_not_described(cli):
    outcome = cli("passes", "fold-constnts")
    assert outcome.code == 1
    assert outcome.err == "error: there is no pass 'fold-constnts'.\n Did you mean 'fold-constants'?\n"


@pytest.mark.parametrize(
    ("assignment", "row"),
    [
        ("optimization.skip=eliminate-noops", ["nodes", "3", "→", "3"]),
        ("optimization.passes=eliminate-dead-code", ["pipeline", "custom"]),
        ("optimization.opset=20", ["opset", "21", "→", "20"]),
        ("optimization.verify=false", ["outputs", "not", "compared:"]),
        ("optimization.target=ort-cpu", ["pipeline", "ort-cpu"]),
    ],
)
def test_set_reaches_a_key_whose_flag_is_not_given(cli, classifier, assignment, row):
    outcome = cli("optimize", classifier, "-o", "out.onnx", "--set", assignment)
    assert outcome.code == 0, outcome.err
    assert row in [line.split()[: len(row)] for line in outcome.out.splitlines()]


@pytest.mark.parametrize(
    ("options", "pipeline"),
    [
        (("--pipeline", "exact"), "exact"),
        (("--target", "ort-cpu"), "ort-cpu"),
        (("--passes", "eliminate-noops"), "custom"),
    ],
)
@pytest.mark.parametrize("configured", ["passes: [eliminate-dead-code]", "target: tvm", "pipeline: aggressive"])
def test_a_flag_that_chooses_passes_is_stronger_than_the_file(cli, classifier, options, pipeline, configured):
    Path("config.yaml").write_text(f"optimization:\n  {configured}\n")
    report = cli("optimize", classifier, "-o", "out.onnx", "--no-verify", *options, "--output-format", "json").json
    assert report["pipeline"] == pipeline


def test_an_opset_that_the_model_cannot_have_fails_and_says_why(cli, write_model):
    model = write_model(
        '<ir_version: 8, opset_import: ["": 17]>\n'
        "g (float[n, 4] x) => (float[n, 4] y) <float[4] s = {1, 1, 1, 1}> { y = LayerNormalization(x, s) }"
    )
    outcome = cli("optimize", model, "-o", "out.onnx", "--opset", 13)
    assert outcome.code == 1
    assert "opset 13 is asked for, and the model stays at 17: " in outcome.err
    assert "opset 13 has no LayerNormalization" in outcome.err
    assert [entry.version for entry in onnx.load("out.onnx").opset_import] == [17]


def test_a_dump_that_cannot_be_written_is_no_fault_of_a_pass(cli, classifier):
    Path("taken").touch()
    outcome = cli("optimize", classifier, "-o", "out.onnx", "--dump", "taken")
    assert outcome.code == 1
    assert "taken: cannot be written" in outcome.err
    assert not Path("out.onnx").exists()


def test_bisect_says_where_the_outputs_are_not_compared(cli, write_model):
    model = write_model(
        '<ir_version: 8, opset_import: ["": 17]>\n'
        "g (float[n, 4] x) => (float[8] y) <int64[1] eight = {8}> { z = Identity(x) y = Reshape(z, eight) }"
    )
    outcome = cli("bisect", model)
    assert outcome.code == 0, outcome.err
    assert "its outputs are not compared: the original does not run" in " ".join(outcome.out.split())


@pytest.mark.parametrize("made", [os.mkfifo, lambda path: path.symlink_to("/proc/self/fd/1")])
def test_a_pipe_and_a_link_to_one_are_not_replaced(cli, classifier, made):
    special = Path("special")
    made(special)
    before = special.lstat()
    outcome = cli("optimize", classifier, "-o", "special", "--no-verify")
    assert outcome.code == 1
    assert "special: is a device or a pipe; name a file." in outcome.err
    assert special.lstat() == before


def test_a_model_in_a_pipe_is_refused(cli):
    os.mkfifo("pipe")
    outcome = cli("optimize", "pipe", "-o", "out.onnx")
    assert (outcome.code, outcome.err) == (1, "error: pipe: is a pipe or a device; name a file.\n")


@pytest.mark.parametrize("command", [("optimize", "new.onnx", "-o", "out.onnx"), ("bisect", "new.onnx")])
def test_an_opset_that_nobody_knows_is_refused(cli, classifier, command):
    model = onnx.load(classifier)
    model.opset_import[0].version = 999
    onnx.save(model, "new.onnx")
    outcome = cli(*command)
    assert outcome.code == 1
    assert "new.onnx: has opset 999, and the newest that the installed onnx knows is " in outcome.err
    assert not Path("out.onnx").exists()


def test_a_dump_does_not_overwrite_the_model(cli, classifier):
    Path("steps").mkdir()
    model = Path("steps/05-eliminate-noops.onnx")
    model.write_bytes(classifier.read_bytes())
    outcome = cli("optimize", model, "-o", "out.onnx", "--dump", "steps")
    assert outcome.code == 1
    assert "05-eliminate-noops.onnx: is the input itself, and the input is never overwritten." in outcome.err
    assert model.read_bytes() == classifier.read_bytes()
