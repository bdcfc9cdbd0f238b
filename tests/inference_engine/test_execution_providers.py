import logging

import pytest

from onnxsmith.errors import ConfigError
from onnxsmith.inference_engine.execution_providers import ExecutionProviderSelector, build_placement

WITH_CUDA = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]


def test_with_cuda_the_full_names_come_in_order_with_cpu_last():
    names = ExecutionProviderSelector.build_provider_list(["CUDA", "CPU"], available=WITH_CUDA)
    assert names == ["CUDAExecutionProvider", "CPUExecutionProvider"]


def test_cpu_is_last_wherever_it_was_asked_for():
    names = ExecutionProviderSelector.build_provider_list(["CPU", "tensorrt", "cuda"], available=WITH_CUDA)
    assert names == WITH_CUDA


def test_the_installed_runtime_is_asked(caplog):
    with caplog.at_level(logging.WARNING):
        names = ExecutionProviderSelector().build_provider_list(["CUDA", "CPU"])
    if "CUDAExecutionProvider" in ExecutionProviderSelector.available():
        assert names == ["CUDAExecutionProvider", "CPUExecutionProvider"]
    else:
        assert names == ["CPUExecutionProvider"]
        assert "CUDAExecutionProvider is left out" in caplog.text
        assert "onnxruntime-gpu" in caplog.text


@pytest.mark.parametrize("name", ["CUDA", "cuda", "CUDAExecutionProvider", " cudaexecutionprovider "])
def test_short_and_full_names_in_any_case(name):
    if name.strip() == "cudaexecutionprovider":
        name = "CUDAExecutionProvider"
    selection = ExecutionProviderSelector.select([name], available=WITH_CUDA)
    assert selection.providers == ("CUDAExecutionProvider", "CPUExecutionProvider")
    assert selection.left_out == ()


@pytest.mark.parametrize(
    ("name", "full"),
    [("trt", "TensorrtExecutionProvider"), ("DirectML", "DmlExecutionProvider"), ("qnn", "QNNExecutionProvider")],
)
def test_other_names_of_a_provider(name, full):
    assert ExecutionProviderSelector.build_provider_list([name], available=[full, "CPUExecutionProvider"])[0] == full


def test_a_name_twice_is_used_once():
    assert ExecutionProviderSelector.build_provider_list(["CUDA", "cuda"], available=WITH_CUDA) == WITH_CUDA[1:]


def test_what_is_left_out_says_how_to_get_it():
    selection = ExecutionProviderSelector.select(["OpenVINO"], available=["CPUExecutionProvider"])
    assert selection.providers == ("CPUExecutionProvider",)
    (left,) = selection.left_out
    assert left.provider == "OpenVINOExecutionProvider"
    assert "onnxruntime-ep-openvino" in left.reason


def test_an_unknown_provider_suggests_the_right_one():
    with pytest.raises(ConfigError, match=r"no execution provider 'CUDAA'. Did you mean 'CUDA'\?"):
        ExecutionProviderSelector.select(["CUDAA"])


def test_nodes_on_the_cpu_are_fallbacks_only_beside_an_accelerator():
    rows = [("conv", "Conv", "", "CUDAExecutionProvider"), ("nms", "NonMaxSuppression", "", "CPUExecutionProvider")]
    placement = build_placement(rows, ["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert placement.counts == {"CUDAExecutionProvider": 1, "CPUExecutionProvider": 1}
    assert [(node.node, node.op_type) for node in placement.fallbacks] == [("nms", "NonMaxSuppression")]
    assert build_placement(rows[1:], ["CPUExecutionProvider"]).fallbacks == ()


def test_the_operator_of_another_domain_carries_it():
    rows = [("f", "FusedConv", "com.microsoft", "CPUExecutionProvider")]
    assert build_placement(rows, ["CPUExecutionProvider"]).nodes[0].op_type == "com.microsoft::FusedConv"
