"""The node tests inside the onnx package, and thousands of random graphs, through the pipelines."""

import warnings

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from graph_checks import evaluate_here, find_difference, run, same_bits
from graph_fuzzer import Fuzzer, is_defined

pytestmark = [pytest.mark.zoo, pytest.mark.timeout(3600)]

GRAPHS = 3000


@pytest.fixture(autouse=True)
def no_children(monkeypatch):
    evaluate_here(monkeypatch)


def node_tests():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    for case in cases:
        names = [value.name for value in case.model.graph.input]
        if case.data_sets and len(names) == len(case.data_sets[0][0]):
            yield case.name, case.model, dict(zip(names, case.data_sets[0][0], strict=True))


def with_constants(message, feeds):
    """All inputs but the first as initializers; None where that cannot be."""
    first, *others = feeds or [None]
    if not others or not all(isinstance(feeds[name], np.ndarray) for name in others):
        return None
    copy = onnx.ModelProto.FromString(message.SerializeToString())
    copy.graph.initializer.extend(numpy_helper.from_array(feeds[name], name) for name in others)
    del copy.graph.input[1:]
    copy.ir_version = max(copy.ir_version, 4)
    return copy, {first: feeds[first]}


def faults(message, feeds, pipelines):
    """What is wrong after the pipelines; None where the model does not run here, or is random."""
    try:
        once, again = (run(message.SerializeToString(), feeds) for _ in range(2))
    except Exception:  # noqa: BLE001 - ONNX Runtime raises many kinds, and has not every operator
        return None
    if not all(same_bits(once[name], again[name]) for name in once):
        return None
    found = [(pipeline, find_difference(message, {"given": feeds}, pipeline, bits=False)) for pipeline in pipelines]
    return [fault for fault in found if fault[1] is not None]


@pytest.mark.parametrize("constant", [False, True])
def test_every_node_test_gives_the_same(constant):
    wrong, compared = {}, 0
    for name, message, feeds in node_tests():
        made = with_constants(message, feeds) if constant else (message, feeds)
        found = faults(*made, ("default", "aggressive")) if made is not None else None
        compared += found is not None
        if found:
            wrong[name] = found
    assert not wrong
    assert compared > (900 if constant else 1400)


def test_thousands_of_random_graphs():
    wrong, compared = {}, 0
    for seed in range(100_000, 100_000 + GRAPHS):
        case = Fuzzer(seed).build()
        if case is None:
            continue
        compared += 1
        feeds = {kind: given for kind, given in case.feeds.items() if is_defined(case.model, given)}
        for pipeline in ("default", "exact", "ort-cpu"):
            fault = find_difference(case.model, feeds, pipeline, bits=pipeline == "exact" and not case.half)
            if fault is not None:
                wrong[seed, pipeline] = fault
    assert not wrong
    assert compared > GRAPHS * 0.9
