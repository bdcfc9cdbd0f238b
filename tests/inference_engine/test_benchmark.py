import numpy as np
import pytest

from onnxsmith.config import Config
from onnxsmith.errors import RuntimeFailure, TensorError
from onnxsmith.inference_engine.benchmark import Benchmark, BenchmarkResult
from onnxsmith.model import Model

DYNAMIC = "g (float[batch, 4] x) => (float[batch, 4] y) { y = Relu(x) }"
FIXED = "g (float[2, 4] x) => (float[2, 4] y) { y = Neg(x) }"
QUICK = Config(benchmark={"batch_sizes": [1, 3], "runs": 7, "warmup_runs": 2})


def measure(config=QUICK, dims=None, feeds=None, **paths):
    return Benchmark(config).run({label: Model.load(path) for label, path in paths.items()}, dims=dims, feeds=feeds)


def test_the_figures_of_known_latencies():
    result = BenchmarkResult.from_latencies("m", 4, list(range(1, 101)))
    assert result.mean_latency_ms == 50.5
    assert result.std_latency_ms == pytest.approx(np.sqrt((100**2 - 1) / 12))
    assert result.p50_latency_ms == 50.5
    assert result.p95_latency_ms == pytest.approx(95.05)
    assert result.p99_latency_ms == pytest.approx(99.01)
    assert result.throughput_samples_per_s == pytest.approx(4 / 0.0505)
    assert result.runs == 100


def test_the_order_of_the_latencies_does_not_matter_and_one_is_enough():
    forth, back = (BenchmarkResult.from_latencies("m", 1, values) for values in ([3.0, 1.0, 8.0], [8.0, 3.0, 1.0]))
    assert forth.p95_latency_ms == back.p95_latency_ms == pytest.approx(7.5)
    single = BenchmarkResult.from_latencies("m", 1, [2.0])
    assert (single.mean_latency_ms, single.p99_latency_ms, single.std_latency_ms) == (2.0, 2.0, 0.0)
    assert single.throughput_samples_per_s == 500


def test_each_batch_size_has_as_many_runs_as_were_asked_for(write_model):
    report = measure(a=write_model(DYNAMIC))
    assert [(result.model, result.batch_size, result.runs) for result in report.results] == [("a", 1, 7), ("a", 3, 7)]
    for result in report.results:
        assert min(result.latencies_ms) > 0
        assert result.load_ms > 0
        assert result.first_run_ms > 0
        assert result.warmup_runs == 2
        assert result.providers == ("CPUExecutionProvider",)
    assert report.notes == ()
    assert report.machine.cores >= 1


def test_models_side_by_side_stand_in_their_order(write_model):
    report = measure(b=write_model(DYNAMIC, "b.onnx"), a=write_model(FIXED, "a.onnx"))
    assert [(result.model, result.batch_size) for result in report.results] == [("b", 1), ("b", 3), ("a", 2)]
    assert report.notes == ("a: its batch is fixed: 2; 1, 3 were not measured",)


def test_a_batch_asked_for_as_a_dimension_is_the_only_one(write_model):
    report = measure(dims={"batch": 5}, a=write_model(DYNAMIC))
    assert [result.batch_size for result in report.results] == [5]
    assert report.notes == ("a: its batch was asked for: 5; 1, 3 were not measured",)


def test_other_dimensions_taken_by_default_are_said(write_model):
    report = measure(a=write_model("g (float[batch, seq] x) => (float[batch, seq] y) { y = Relu(x) }"))
    assert report.notes == ("a: taken by default: seq=128",)


def test_a_batch_at_which_a_model_fails_is_a_note(write_model):
    text = "g (float[batch, 4] x) => (float[3, 4] y) <int64[2] s = {3, 4}> { y = Reshape(x, s) }"
    report = measure(a=write_model(text))
    assert [result.batch_size for result in report.results] == [3]
    assert len(report.notes) == 1
    assert report.notes[0].startswith("a at batch 1 was not measured: ")


def test_where_nothing_runs_the_reason_is_the_error(write_model):
    with pytest.raises(RuntimeFailure, match="Nope"):
        measure(a=write_model("g (float[batch] x) => (float[batch] y) { y = custom.Nope(x) }"))


def test_one_broken_model_does_not_stop_the_other(write_model):
    broken = write_model("g (float[batch] x) => (float[batch] y) { y = custom.Nope(x) }", "broken.onnx")
    report = measure(broken=broken, good=write_model(DYNAMIC))
    assert [result.model for result in report.results] == ["good", "good"]
    assert all("broken at batch" in note for note in report.notes)


def test_one_that_takes_the_child_down_does_not_stop_the_other(write_model):
    hungry = "g (float[batch] x) => (float[n, m] y) <int64[2] s = {100000, 100000}> { y = Expand(x, s) }"
    config = Config(benchmark={"batch_sizes": [1], "runs": 2, "warmup_runs": 0}, limits={"memory_mb": 2000})
    report = measure(config, hungry=write_model(hungry, "hungry.onnx"), good=write_model(DYNAMIC))
    assert [result.model for result in report.results] == ["good"]
    assert "memory" in report.notes[0]


def test_without_a_warm_up_the_first_run_counts(write_model):
    config = Config(benchmark={"batch_sizes": [1], "runs": 3, "warmup_runs": 0})
    (result,) = measure(config, a=write_model(DYNAMIC)).results
    assert result.first_run_ms == result.latencies_ms[0]


def test_given_inputs_are_used(write_model):
    text = "g (float[batch, 2] x, int64 k) => (float[batch, 2] y) { s = Sign(k) f = Cast<to=1>(s) y = Mul(x, f) }"
    assert len(measure(feeds={"k": np.array(3)}, a=write_model(text)).results) == 2
    with pytest.raises(TensorError, match="rank"):
        measure(feeds={"k": np.array([3])}, a=write_model(text))


def test_a_dimension_that_is_not_there(write_model):
    with pytest.raises(TensorError, match="no dynamic dimension is called 'sequence'"):
        measure(dims={"sequence": 3}, a=write_model(DYNAMIC))
