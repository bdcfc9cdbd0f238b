"""Passes by name: built-in ones, those of other packages, and their options."""

import dataclasses
from importlib.metadata import EntryPoint

import pytest
from core_helpers import DropIdentity

from onnxsmith.errors import PassError
from onnxsmith.graph_optimizer.pass_listing import describe_pass, list_passes
from onnxsmith.graph_optimizer.passes import table
from onnxsmith.graph_optimizer.passes.table import BUILT_IN, GROUP, load_pass, make_pass, parse_pass, pass_names


@pytest.fixture
def installed(monkeypatch):
    """Pretends that other packages are installed, which offer passes by entry point."""

    def install(**values):
        points = [EntryPoint(name.replace("_", "-"), value, GROUP) for name, value in values.items()]
        monkeypatch.setattr(table, "entry_points", lambda group: points if group == GROUP else [])
        table.plugins.cache_clear()

    yield install
    table.plugins.cache_clear()


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_pass_loads_and_is_a_frozen_dataclass(name):
    kind = load_pass(name)
    assert kind.name == name
    assert kind.__dataclass_params__.frozen
    assert kind.summary()
    assert kind.summary().endswith((".", ":"))
    required = [f for f in dataclasses.fields(kind) if f.default is f.default_factory is dataclasses.MISSING]
    if not required:
        assert make_pass(name) == kind()


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda: load_pass("fold-constant"), "there is no pass 'fold-constant'.", "Did you mean 'fold-constants'?"),
        (lambda: load_pass("zzz"), "there is no pass 'zzz'.", "`onnxsmith passes` lists them."),
        (
            lambda: make_pass("eliminate-dead-code", {"depth": 1}),
            "the pass 'eliminate-dead-code' has no option 'depth'.",
            "It takes no options.",
        ),
        (
            lambda: make_pass("recognize-gelu", {"domian": "onnxruntime"}),
            "the pass 'recognize-gelu' has no option 'domian'.",
            "Did you mean 'domain'?",
        ),
        (
            lambda: parse_pass("fold-constants{"),
            "'fold-constants{': write options as fold-constants{option=value}.",
            "",
        ),
        (lambda: parse_pass("recognize-gelu{domain}"), "'recognize-gelu{domain}': 'domain' is not option=value.", ""),
    ],
)
def test_what_there_is_not_is_refused(call, message, hint):
    with pytest.raises(PassError) as caught:
        call()
    assert caught.value.message == message
    assert hint in (caught.value.hint or "")


def test_a_value_of_another_type_is_refused():
    with pytest.raises(PassError, match=r"the pass 'convert-opset': option 'opset': .*valid integer"):
        parse_pass("convert-opset{opset=many}")
    with pytest.raises(PassError, match="option 'domain'"):
        make_pass("recognize-gelu", {"domain": "nobody"})


def test_options_are_read_from_text(installed):
    installed(drop_identity="core_helpers:DropIdentity")
    assert parse_pass(" drop-identity ") == DropIdentity()
    assert parse_pass("drop-identity{}") == DropIdentity()
    assert parse_pass("drop-identity{ most = 3 }") == DropIdentity(most=3)
    assert parse_pass("drop-identity{most=3,}").options() == {"most": 3}
    assert parse_pass("convert-opset{opset=20}").options()["opset"] == 20


def test_a_pass_of_another_package_is_like_ours(installed):
    installed(drop_identity="core_helpers:DropIdentity")
    assert pass_names()[-1] == "drop-identity"
    assert load_pass("drop-identity") is DropIdentity
    info = describe_pass("drop-identity")
    assert (info.source, info.exact, info.problem) == ("core_helpers:DropIdentity", True, None)
    assert (info.summary, info.details) == ("Identity goes.", "A pass that is right.")
    (option,) = info.options
    assert (option.name, option.type, option.default, option.required) == ("most", "int", 1000, False)
    assert option.description == "How many go at most."


def test_every_option_of_ours_is_described():
    for info in list_passes().passes:
        assert [option.name for option in info.options if not option.description] == [], info.name


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("no_such_module:Pass", "cannot be loaded: No module named 'no_such_module'"),
        ("core_helpers:NoSuchClass", "cannot be loaded: module 'core_helpers' has no attribute 'NoSuchClass'"),
        ("core_helpers:model_of", "is not a subclass of onnxsmith.Pass"),
        ("core_helpers:SwapSub", "calls itself 'swap-sub'"),
    ],
)
def test_a_broken_plugin_stays_in_the_list_with_the_reason(installed, value, problem):
    installed(broken=value)
    (info,) = (info for info in list_passes().passes if info.name == "broken")
    assert problem in info.problem
    assert info.source == value
    with pytest.raises(PassError, match="the pass 'broken'"):
        load_pass("broken")
    assert load_pass("fold-constants").name == "fold-constants"


def test_a_name_taken_twice_is_an_error(installed):
    installed(fold_constants="core_helpers:DropIdentity")
    with pytest.raises(PassError, match="two passes are called 'fold-constants'; one is in core_helpers:DropIdentity"):
        pass_names()


def test_the_list_has_every_pass_and_pipeline():
    listing = list_passes()
    assert [info.name for info in listing.passes][: len(BUILT_IN)] == list(BUILT_IN)
    assert all(info.problem is None for info in listing.passes)
    names = {info.name for info in listing.passes}
    for pipeline in listing.pipelines:
        assert set(pipeline.passes) <= names
