"""Small graphs that break optimisers, and random ones, through every pipeline: the outputs must be the original's."""

import numpy as np
import pytest

from graph_checks import PIPELINES, evaluate_here, find_difference, session
from graph_fuzzer import Fuzzer, is_defined
from nasty_graphs import CASES, RANDOM
from onnxsmith.graph_optimizer.pass_pipeline import PassPipeline
from onnxsmith.graph_optimizer.pipelines import stages_of
from onnxsmith.model import Model

SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30)

_DTYPES = {"float": np.float32, "double": np.float64, "bool": np.bool_, "string": np.object_}


@pytest.fixture(autouse=True)
def no_children(monkeypatch):
    evaluate_here(monkeypatch)


def sampled(value, rng, size):
    shape = [dim if isinstance(dim, int) else size for dim in value.shape]
    name = value.type.removeprefix("tensor(").removesuffix(")")
    if name == "string":
        return np.full(shape, "word", object)
    dtype = np.dtype(_DTYPES.get(name, name))
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(shape) * 2).astype(dtype)
    return np.asarray(rng.integers(0, 2 if dtype.kind == "b" else 4, shape)).astype(dtype)


def feeds_of(message):
    """By kind: ordinary numbers, special ones, other sizes, and other contents for what can be overridden."""
    opened = session(message.SerializeToString())
    inputs, overridable = opened.get_inputs(), opened.get_overridable_initializers()
    rng = np.random.default_rng(0)
    kinds = {f"size {size}": {value.name: sampled(value, rng, size) for value in inputs} for size in (4, 1, 2, 0)}
    special = {value.name: sampled(value, rng, 6) for value in inputs}
    for array in special.values():
        if array.dtype in (np.float32, np.float64) and array.size:
            array.reshape(-1)[:6] = SPECIAL[: array.size]
    kinds["special"] = special
    for value in overridable:
        for number in range(2):
            kinds[f"override {number}"] = kinds["size 4"] | {value.name: sampled(value, rng, 4)}
    return kinds


@pytest.mark.parametrize("name", [name for name in CASES if name not in RANDOM])
def test_what_breaks_optimisers(name):
    message = CASES[name]()
    feeds = feeds_of(message)
    for pipeline in PIPELINES:
        assert find_difference(message, feeds, pipeline) is None, pipeline


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_random_operators_stay(name, pipeline):
    model = Model.from_proto(CASES[name]())
    made = PassPipeline(stages_of(pipeline)).run(lambda: Model(model.ir.clone())).model
    kinds = set(RANDOM[name])
    assert [node.op_type for node in made.nodes() if node.op_type in kinds] == RANDOM[name]


def test_random_graphs():
    checked = 0
    for seed in range(60):
        case = Fuzzer(seed).build()
        if case is None:
            continue
        feeds = {kind: given for kind, given in case.feeds.items() if is_defined(case.model, given)}
        for pipeline in PIPELINES:
            wrong = find_difference(case.model, feeds, pipeline, bits=pipeline == "exact" and not case.half)
            assert wrong is None, f"seed {seed}, {pipeline}: {wrong}"
        checked += 1
    assert checked > 20
