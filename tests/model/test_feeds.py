from __future__ import annotations

import io
import re

import ml_dtypes
import numpy as np
import pytest

from onnxsmith.errors import TensorError
from onnxsmith.model import TensorSpec, check_feeds

X = TensorSpec(name="x", kind="tensor", dtype="float32", shape=("batch", 3))


def tensor(dtype: str, *shape: int | str | None, name: str = "x", kind: str = "tensor") -> TensorSpec:
    return TensorSpec(name=name, kind=kind, dtype=dtype, shape=shape)


def check(spec: TensorSpec, value: object) -> object:
    return check_feeds([spec], {spec.name: value})[spec.name]


# ---- what is taken


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("float32", [[1, 2, 3]], np.array([[1, 2, 3]], np.float32)),
        ("float32", [[1.5, True, 3]], np.array([[1.5, 1, 3]], np.float32)),
        ("float16", ((1, 2, 3),), np.array([[1, 2, 3]], np.float16)),
        ("bfloat16", [[1, 2, 3]], np.array([[1, 2, 3]], ml_dtypes.bfloat16)),
        ("uint8", [[1, 2, 255]], np.array([[1, 2, 255]], np.uint8)),
        ("int4", [[1, -2, 3]], np.array([[1, -2, 3]], ml_dtypes.int4)),
        ("uint64", [[1, 2, 2**64 - 1]], np.array([[1, 2, 2**64 - 1]], np.uint64)),
        ("bool", [[True, False, 1]], np.array([[1, 0, 1]], bool)),
        ("complex64", [[1, 2j, 3]], np.array([[1, 2j, 3]], np.complex64)),
        ("string", [["a", "ü", ""]], np.array([["a", "ü", ""]], object)),
        ("string", np.array([["a", "b", "c"]]), np.array([["a", "b", "c"]], object)),
    ],
)
def test_lists_become_arrays(dtype, value, expected):
    array = check(tensor(dtype, 1, 3), value)
    assert array.dtype == expected.dtype
    assert np.array_equal(array, expected)


def test_numbers_become_scalars():
    assert check(tensor("int64"), 16000) == np.array(16000)
    assert check(tensor("int64"), 16000).dtype == np.int64
    assert check(tensor("float32"), 1).dtype == np.float32


def test_an_array_is_passed_on_as_it_is():
    array = np.zeros((2, 3), np.float32)
    assert check(X, array) is array
    assert check(TensorSpec(name="x", kind="tensor", dtype="float32", shape=None), array) is array


def test_order_is_the_models():
    specs = [tensor("float32", name="b"), tensor("float32", name="a")]
    assert list(check_feeds(specs, {"a": 1.0, "b": 2.0})) == ["b", "a"]


def test_another_byte_order_is_turned():
    array = check(X, np.array([[1, 2, 3]], ">f4"))
    assert array.dtype.isnative
    assert array.tolist() == [[1, 2, 3]]


def test_other_arrays_are_arrays():
    class Foreign:
        def __array__(self, dtype=None, copy=None):
            return np.ones((1, 3), np.float32)

    assert check(X, Foreign()).tolist() == [[1, 1, 1]]
    assert check(X, memoryview(np.ones((1, 3), np.float32))).shape == (1, 3)


def test_a_type_whose_name_a_file_forgot():
    saved = np.array([[1, 2, 3]], ml_dtypes.bfloat16)
    buffer = io.BytesIO()
    np.save(buffer, saved)
    buffer.seek(0)
    loaded = np.load(buffer)
    assert loaded.dtype != saved.dtype
    assert np.array_equal(check(tensor("bfloat16", "n", 3), loaded), saved)


def test_sequences_maps_and_optionals():
    sequence = tensor("float32", None, name="s", kind="sequence")
    assert [array.dtype for array in check(sequence, [[1.0], np.ones(2, np.float32)])] == [np.float32] * 2
    assert check(sequence, ()) == []
    assert check(tensor("map(string, float32)", kind="map"), {"a": 1.0}) == {"a": 1.0}
    assert check(tensor("map(int64, float32)", kind="sequence"), [{1: 1.0}]) == [{1: 1.0}]
    assert check(tensor("float32", 2, kind="optional"), None) is None
    assert check(tensor("float32", 2, kind="optional"), np.ones(2, np.float32)).tolist() == [1, 1]


def test_fixed_empty_dimension():
    assert check(tensor("float32", 0, 3), np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert check(tensor("int64", 0), []).shape == (0,)


# ---- what is refused


@pytest.mark.parametrize(
    ("spec", "value", "message"),
    [
        (X, np.zeros((2, 4), np.float32), "shape [2, 4]; the model wants [batch, 3]: axis 1 is 4 and must be 3."),
        (X, np.zeros(3, np.float32), "input 'x' has rank 1, shape [3]; the model wants rank 2: [batch, 3]."),
        (X, np.zeros((0, 3), np.float32), "input 'x' has shape [0, 3]: axis 0 (batch) is zero.\nGive at least one."),
        (tensor("float32", None, 3), np.zeros((0, 3), np.float32), "axis 0 (dynamic) is zero."),
        (X, np.zeros((1, 3)), "has dtype float64; the model wants float32.\nConvert it: array.astype('float32')"),
        (X, np.zeros((1, 3), np.int64), "has dtype int64; the model wants float32."),
        (X, np.array([["a", "b", "c"]]), "the model wants float32."),
        (X, "abc", "input 'x' cannot be read as float32: 'abc' does not fit."),
        (X, [["1", "2", "3"]], "input 'x' cannot be read as float32: [['1', '2', '3']] does not fit."),
        (X, [[1, 2, 3], [1]], "input 'x' cannot be read as float32:"),
        (X, None, "input 'x' cannot be read as float32: None does not fit."),
        (X, {"a": 1}, "input 'x' cannot be read as float32:"),
        (tensor("int64", 2), [1.5, 2], "input 'x' cannot be read as int64: [1.5, 2] does not fit."),
        (tensor("bool", 1), [0.5], "input 'x' cannot be read as bool: [0.5] does not fit."),
        (tensor("uint8", 1), [300], "input 'x' cannot be read as uint8:"),
        (tensor("uint8", 1), [-1], "input 'x' cannot be read as uint8:"),
        (tensor("float8_e4m3fn", 1), np.zeros(1, ml_dtypes.float8_e5m2), "the model wants float8_e4m3fn."),
        (tensor("undefined", 1), [1], "input 'x' cannot be read as undefined:"),
        (tensor("string", 1), [1], "has dtype object; the model wants strings."),
        (tensor("string", 2), ["a", None], "has dtype object; the model wants strings."),
        (tensor("string", 1), np.ones(1), "has dtype float64; the model wants strings."),
        (tensor("float32", None, kind="sequence"), np.ones(2, np.float32), "is a ndarray; the model wants a list"),
        (tensor("float32", None, kind="sequence"), [["a"]], "input 'x' cannot be read as float32:"),
        (tensor("map(string, float32)", kind="map"), [1], "input 'x' is a list; the model wants a dict: map("),
        (tensor("map(int64, float32)", kind="sequence"), [1], "input 'x' is a int; the model wants a dict: sequence("),
    ],
)  # fmt: skip
def test_refused(spec, value, message):
    with pytest.raises(TensorError, match=re.escape(message)) as caught:
        check(spec, value)
    assert caught.value.exit_code == 1


def test_missing_and_unknown_inputs():
    specs = [tensor("int64", "batch", name="input_ids"), tensor("int64", "batch", name="attention_mask")]
    with pytest.raises(TensorError, match=re.escape("no value for the input 'attention_mask'.")) as caught:
        check_feeds(specs, {"input_ids": [1]})
    assert caught.value.hint == "The inputs are: input_ids: int64[batch], attention_mask: int64[batch]."
    with pytest.raises(TensorError, match=re.escape("the model has no input 'input_id'. Did you mean 'input_ids'?")):
        check_feeds(specs, {"input_id": [1]})


def test_one_dimension_has_one_size():
    specs = [tensor("int64", "batch", name="a"), tensor("int64", 2, "batch", name="b")]
    message = "dimension 'batch' is 3 in input 'b' and 1 in 'a'; it must be the same."
    with pytest.raises(TensorError, match=re.escape(message)):
        check_feeds(specs, {"a": [1], "b": [[1, 2, 3], [4, 5, 6]]})
