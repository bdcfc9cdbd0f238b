"""The inferred shapes, dtypes and contents agree with the expected outputs of ONNX's own node tests."""

import warnings

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.backend.test.case.node import collect_testcases

from onnxsmith.graph_analysis.symbolic import Facts


@pytest.fixture(scope="module")
def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [case for case in collect_testcases(None) if case.model is not None]


def with_constant_inputs(model: onnx.ModelProto, arrays) -> onnx.ModelProto:
    """The model with its tensors of inputs as initializers."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for declared, array in zip(model.graph.input, arrays, strict=False):
        if isinstance(array, np.ndarray) and declared.type.HasField("tensor_type"):
            tensor = onnx.numpy_helper.from_array(array, declared.name)
            if tensor.data_type == declared.type.tensor_type.elem_type:
                changed.graph.initializer.append(tensor)
                changed.graph.input.remove(declared)
    return changed


def disagreement(facts: Facts, value: ir.Value, expected) -> str | None:
    """What is said wrong of a value."""
    if isinstance(expected, onnx.TensorProto):
        expected = ir.from_proto(expected).numpy()
    if isinstance(expected, list) or expected is None:
        return None
    expected = np.asarray(expected)
    shape, dtype, data = facts.shape(value), facts.dtype(value), facts.data(value)
    if shape is not None and (
        len(shape) != expected.ndim
        or any(isinstance(dim, int) and dim != size for dim, size in zip(shape, expected.shape, strict=True))
    ):
        return f"shape {shape}, not {expected.shape}"
    if dtype is not None and dtype != ir.DataType.STRING and dtype.numpy() != expected.dtype:
        return f"dtype {dtype}, not {expected.dtype}"
    if data is not None:
        told = np.array(data, dtype=object).reshape(-1)
        known = [isinstance(element, int) for element in told]
        if told[known].tolist() != expected.reshape(-1)[known].tolist():
            return f"contents {data}, not {expected}"
    return None


@pytest.mark.parametrize("constant", [False, True])
def test_nothing_that_is_known_is_wrong(cases, constant):
    wrong, asked, unknown = [], 0, 0
    for case in cases:
        arrays, outputs = case.data_sets[0]
        model = ir.from_proto(with_constant_inputs(case.model, arrays) if constant else case.model)
        facts = Facts(model)
        for value, expected in zip(model.graph.outputs, outputs, strict=False):
            asked += 1
            unknown += facts.shape(value) is None and facts.is_tensor(value) is not False
            fault = disagreement(facts, value, expected)
            if fault is not None:
                wrong.append(f"{case.name}: {value.name} has {fault}")
    assert not wrong
    assert asked > 2000
    assert unknown < asked * (0.02 if constant else 0.05)
