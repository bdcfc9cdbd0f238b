"""The named pipelines, and what a configuration makes of them."""

import pytest

from onnxsmith.config import OptimizationConfig
from onnxsmith.errors import PassError
from onnxsmith.graph_optimizer.passes.table import BUILT_IN
from onnxsmith.graph_optimizer.pipelines import PIPELINES, listed_stages, passes_of, plan, stages_of, target_pipeline

ADAPTERS = {"onnxsim", "onnxslim", "onnxoptimizer", "onnxscript", "ort-level", "ort-transformers"}


def names(stages):
    return [step.name for step in passes_of(stages)]


def planned(**options):
    return plan(OptimizationConfig(**options))


@pytest.mark.parametrize("name", PIPELINES)
def test_every_pipeline_consists_of_our_own_passes(name):
    stages = stages_of(name)
    assert set(names(stages)) <= set(BUILT_IN) - ADAPTERS
    assert PIPELINES[name].summary


def test_exact_has_exact_passes_only():
    exact = names(stages_of("exact"))
    assert exact
    assert all(step.exact for step in passes_of(stages_of("exact")))
    assert "fold-constants" in exact
    assert "fold-batch-norm" not in exact


def test_aggressive_moves_to_a_newer_opset_before_it_recognises():
    order = names(stages_of("aggressive"))
    assert order.index("convert-opset") < order.index("recognize-attention")
    (step,) = (step for step in passes_of(stages_of("aggressive")) if step.name == "convert-opset")
    assert step.options()["opset"] == 23


def test_only_the_target_onnx_runtime_gets_its_own_operators():
    for name in PIPELINES:
        domains = {step.options().get("domain") for step in passes_of(stages_of(name))} - {None}
        assert domains <= ({"onnxruntime"} if name == "ort-cpu" else {"standard"})
    assert {step.options().get("domain") for step in passes_of(stages_of("ort-cpu"))} == {None, "onnxruntime"}


@pytest.mark.parametrize(
    ("options", "name", "first"),
    [
        ({}, "default", "inline-functions"),
        ({"pipeline": "exact"}, "exact", "inline-functions"),
        ({"target": "qnn-htp:v75"}, "qnn-htp", "inline-functions"),
        ({"passes": ["eliminate-noops"]}, "custom", "eliminate-noops"),
        ({"dims": {"batch": 1}}, "default", "specialize-shapes"),
        ({"opset": 20, "passes": ["eliminate-noops"]}, "custom", "convert-opset"),
    ],
)
def test_what_a_configuration_asks_for_is_planned(options, name, first):
    planned_name, stages = planned(**options)
    assert planned_name == name
    assert names(stages)[0] == first


def test_listed_passes_run_once_each_in_that_order():
    (stage,) = listed_stages(["fold-constants", "eliminate-noops", "fold-constants"])
    assert [step.name for step in stage.passes] == ["fold-constants", "eliminate-noops", "fold-constants"]
    assert stage.repeat is False


def test_a_command_line_list_keeps_braces_together():
    from onnxsmith.config import Config
    from onnxsmith.config_loading import override

    config = override(Config(), {"optimization.passes": "convert-opset{opset=20},recognize-gelu{domain=standard}"})
    assert config.optimization.passes == ("convert-opset{opset=20}", "recognize-gelu{domain=standard}")


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("a,b", ("a", "b")),
        (" a{x=1,y=2} , b,", ("a{x=1,y=2}", "b")),
        ("a{,b", ("a{", "b")),  # what is wrong is kept, so that it is refused
        ("", ()),
    ],
)
def test_a_list_of_passes_is_split_at_its_own_commas(text, passes):
    assert OptimizationConfig(passes=text).passes == passes


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stages_of("defualt"), "there is no pipeline 'defualt'. Did you mean 'default'?"),
        (lambda: target_pipeline("qnn-htpp:v75"), "there is no target 'qnn-htpp:v75'. Did you mean 'qnn-htp'?"),
        (lambda: target_pipeline("aggressive"), "there is no target 'aggressive'."),
        (lambda: planned(skip=["nothing"]), "there is no pass 'nothing'."),
        (
            lambda: planned(passes=["eliminate-noops"], target="ort-cpu"),
            "passes are listed and a target is named.",
        ),
    ],
)
def test_what_there_is_not_is_refused(call, message):
    with pytest.raises(PassError) as caught:
        call()
    assert caught.value.message.startswith(message)
