import json

import numpy as np
import pytest

from onnxsmith.config import Config
from onnxsmith.inference_engine.profiler import Profiler, read_profile, self_times
from onnxsmith.model import Model

QUICK = Config(benchmark={"runs": 4, "warmup_runs": 2})


def event(name, ts, dur, op=None, tid=1, cat="Node"):
    args = {"op_name": op, "provider": "CPUExecutionProvider", "output_type_shape": [{"float": [1, 2]}]} if op else {}
    return {"cat": cat, "ph": "X", "tid": tid, "ts": ts, "dur": dur, "name": name, "args": args}


def test_the_time_inside_a_subgraph_is_not_counted_twice():
    outer, inner = event("if_kernel_time", 0, 100, "If"), event("conv_kernel_time", 10, 70, "Conv")
    deeper, after = event("loop_kernel_time", 85, 10, "Loop"), event("relu_kernel_time", 100, 5, "Relu")
    own = {e["name"]: time for e, time in self_times([inner, after, outer, deeper])}
    assert own == {"if_kernel_time": 20, "conv_kernel_time": 70, "loop_kernel_time": 10, "relu_kernel_time": 5}


def test_operators_at_the_same_microsecond_do_not_nest():
    own = [time for _, time in self_times([event("a", 0, 3, "Add"), event("b", 0, 3, "Add"), event("c", 3, 0, "Mul")])]
    assert own == [3, 3, 0]


def test_threads_do_not_nest_in_each_other():
    own = [time for _, time in self_times([event("a", 0, 9, "If", tid=1), event("b", 1, 3, "Add", tid=2)])]
    assert own == [9, 3]


def test_the_figures_of_a_known_trace():
    runs = [event("model_run", start, 50, cat="Session") for start in (0, 100, 200)]
    kernels = [
        event("a_kernel_time", 1, 40, "Conv"),  # the warm-up
        event("a_kernel_time", 101, 20, "Conv"),
        event("b_kernel_time", 130, 10, "Relu"),
        event("a_kernel_time", 201, 24, "Conv"),
        event("b_kernel_time", 230, 6, "Relu"),
        event("b_fence_before", 229, 1, "Relu"),
    ]
    report = read_profile([*runs, *kernels], "m", skip_runs=1)
    assert (report.runs, report.run_us, report.operators_us) == (2, 50, 30)
    conv, relu = report.nodes
    assert (conv.name, conv.op_type, conv.mean_us, conv.calls) == ("a", "Conv", 22, 1)
    assert conv.share == pytest.approx(22 / 30)
    assert conv.output_shapes == ("float[1, 2]",)
    assert (relu.name, relu.mean_us) == ("b", 8)
    assert [row.name for row in report.slowest_operators] == ["Conv", "Relu"]


def test_a_real_profile(write_model, tmp_path):
    path = write_model(
        "g (float[n, 64, 64] x) => (float[n, 64, 64] y) { a = MatMul(x, x) b = MatMul(a, x) y = Relu(b) }"
    )
    trace = tmp_path / "trace.json"
    report = Profiler(Model.load(path), QUICK).run(dims={"n": 2}, trace=trace)
    assert report.runs == 4
    operators = {row.name: row for row in report.operators}
    assert operators["MatMul"].calls == 2
    assert operators["Relu"].calls == 1
    assert sum(row.share for row in report.nodes) == pytest.approx(1)
    assert report.operators_us <= report.run_us
    assert report.slowest_nodes[0].mean_us == max(row.mean_us for row in report.nodes)
    assert any(entry["name"] == "model_run" for entry in json.loads(trace.read_text()))


def test_only_five_are_the_slowest(write_model):
    body = " ".join(f"v{i + 1} = Neg(v{i})" for i in range(8))
    path = write_model(f"g (float[4] v0) => (float[4] y) {{ {body} y = Identity(v8) }}")
    config = Config(benchmark={"runs": 2, "warmup_runs": 0}, inference={"optimization_level": "ORT_DISABLE_ALL"})
    report = Profiler(Model.load(path), config).run({"v0": np.ones(4, np.float32)})
    assert len(report.slowest_nodes) == 5
    assert {row.name: row.calls for row in report.operators} == {"Neg": 8, "Identity": 1}
    assert report.trace is None
