"""The pass that breaks a model is found, and the smallest part that shows it."""

import numpy as np
import pytest
from core_helpers import floats, run

from onnxsmith.config import Config
from onnxsmith.errors import InvalidModelError, OutputError
from onnxsmith.graph_optimizer.bisection import bisect
from onnxsmith.graph_optimizer.blame import first_fault
from onnxsmith.graph_optimizer.pass_pipeline import PipelineResult, Step
from onnxsmith.model import Model

SHORT = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Identity(x) [odd] b = Sub(a, w) y = Tanh(b) }"


def chain(length, at):
    """A chain of Tanh nodes with one subtraction in it."""
    body = [f"v{i + 1} = Tanh(v{i})" if i != at else f"[odd] v{i + 1} = Sub(v{i}, w)" for i in range(length)]
    return f"g (float[n, 2] v0) => (float[n, 2] v{length}) <float[2] w = {{0.25, 0.5}}> {{ {' '.join(body)} }}"


def config(*passes, **options):
    return Config(optimization={"passes": passes, **options})


def test_one_node_of_thirty_is_found_and_its_part_reproduces(write_model, tmp_path, planted):
    model = Model.load(write_model(chain(30, 17)))
    asked = config("drop-identity", "swap-sub", "double-identity")
    report = bisect(model, asked, output=tmp_path / "part.onnx")
    assert (report.pipeline, report.culprit, report.step) == ("custom", "swap-sub", 1)
    assert report.reason.startswith("the outputs differ on normal inputs: output 'v30'")
    assert (report.nodes, report.op_types) == (("odd",), ("Sub",))
    assert report.part == tmp_path / "part.onnx"
    assert report.probes < 30

    part = Model.load(report.part)
    assert [node.op_type for node in part.ir.graph] == ["Sub"]
    np.testing.assert_array_equal(run(part, {"v17": floats([1, 2])})[0], [[0.75, 1.5]])
    again = bisect(part, config("swap-sub"))
    assert (again.culprit, again.nodes) == ("swap-sub", ("odd",))


def test_a_pass_that_breaks_the_structure_is_found(write_model, tmp_path, planted):
    text = chain(8, 3).replace("v7 = Tanh(v6)", "v7 = Relu(v6)")
    report = bisect(Model.load(write_model(text)), config("drop-identity", "breaks-structure"))
    assert (report.culprit, report.step, report.op_types) == ("breaks-structure", 1, ("Relu",))
    assert report.reason == "node 'Relu(v7)': its inputs and outputs are not what Relu takes"
    assert report.part is None


def test_a_pass_that_breaks_the_interface_is_found(write_model, tmp_path, planted):
    report = bisect(Model.load(write_model(SHORT)), config("renames-output"), output=tmp_path / "part.onnx")
    assert report.culprit == "renames-output"
    assert report.reason == "the interface differs: outputs: y before, renamed after"
    assert len(report.nodes) == 1
    assert report.part == tmp_path / "part.onnx"


BRANCH = """g (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> { r = Exp(x) [held] h = If (c) <
then_branch = t () => (float[2] a) { u = INNER a = Tanh(u) },
else_branch = e () => (float[2] b) { v = INNER b = Neg(v) }>
y = Tanh(h) }"""
TURN = """g (float[2] x) => (float[2] y) <int64 n = {2}, bool c = {1}, float[2] w = {1, 2}> { r = Exp(x)
[held] h = Loop (n, c, r) <body = b (int64 i, bool d, float[2] k) => (bool e, float[2] u) { e = Identity(d) u = INNER }>
y = Tanh(h) }"""


@pytest.mark.parametrize(
    ("text", "inner", "culprit", "reason"),
    [
        (BRANCH, "Sub(r, w)", "swap-sub", "the outputs differ on normal inputs"),
        (TURN, "Relu(k)", "breaks-structure", "node 'Relu(u)'"),
    ],
)
def test_what_breaks_in_a_subgraph_is_found(write_model, tmp_path, planted, text, inner, culprit, reason):
    model = Model.load(write_model(text.replace("INNER", inner)))
    report = bisect(model, config("drop-identity", culprit), output=tmp_path / "part.onnx")
    assert report.culprit == culprit
    assert report.reason.startswith(reason)
    assert report.nodes == ("held",)
    assert bisect(Model.load(report.part), config(culprit)).culprit == culprit


def test_nothing_is_to_blame_where_nothing_is_wrong(write_model, planted):
    report = bisect(Model.load(write_model(SHORT)), config("drop-identity"))
    assert (report.culprit, report.nodes, report.probes) == (None, (), 0)


def test_skipped_passes_are_skipped_here_too(write_model, planted):
    asked = config("raises", "drop-identity", "swap-sub", skip=["raises"])
    report = bisect(Model.load(write_model(SHORT)), asked)
    assert (report.culprit, report.step, report.nodes) == ("swap-sub", 2, ("odd",))


def test_a_pass_is_given_its_options(write_model, planted):
    text = "g (float[2] x) => (float[2] y) { a = Identity(x) b = Identity(a) y = Tanh(b) }"
    assert bisect(Model.load(write_model(text)), config("drop-identity{most=1}")).culprit is None


def test_what_cannot_be_bisected_is_refused(write_model, planted):
    path = write_model(SHORT)
    with pytest.raises(OutputError, match="never overwritten"):
        bisect(Model.load(path), config("swap-sub"), output=path)
    invalid = write_model("g (float[2] x) => (float[2] y) { y = NoSuchOperator(x) }", "invalid.onnx")
    with pytest.raises(InvalidModelError):
        bisect(Model.load(invalid), config("swap-sub"))


@pytest.mark.parametrize("bad", range(5))
def test_the_first_bad_run_is_found_in_few_probes(bad):
    steps = tuple(
        Step(
            number=3 * place, name=f"p{place}", options={}, changes=1, nodes=1, nodes_removed=0, bytes=0,
            bytes_removed=0, seconds=0.0,
        )
        for place in range(5)
    )  # fmt: skip
    probes = []

    def fault_at(limit):
        probes.append(limit)
        return f"wrong at {limit}" if limit > 3 * bad else None

    blamed = first_fault(PipelineResult(None, steps, {}, (), (), 15), fault_at)
    assert (blamed.name, blamed.number) == (f"p{bad}", 3 * bad)
    assert blamed.reason.startswith("wrong at")
    assert len(probes) <= 4
