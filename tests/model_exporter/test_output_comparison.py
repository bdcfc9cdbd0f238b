import math

import ml_dtypes
import numpy as np
import pytest

from onnxsmith.model_exporter.comparison import difference


def test_the_error_is_relative_to_the_largest_output():
    result = difference([np.array([0.0, 99.5], np.float32)], [np.array([0.25, 100.0], np.float32)])
    assert (result.max_abs_error, result.max_rel_error, result.agree) == (0.5, 0.005, False)


@pytest.mark.parametrize(
    ("dtype", "near", "far"),
    [("float32", 5e-4, 2e-3), ("float16", 5e-3, 2e-2), ("float64", 5e-6, 2e-5), (ml_dtypes.bfloat16, 0.03, 0.1)],
)
def test_the_tolerance_follows_the_dtype(dtype, near, far):
    expected = np.ones(4, dtype)
    assert difference([(expected * (1 + near)).astype(dtype)], [expected]).agree
    assert not difference([(expected * (1 + far)).astype(dtype)], [expected]).agree


def test_integers_and_booleans_must_be_equal():
    assert difference([np.array([1, 2])], [np.array([1, 2])]).agree
    assert not difference([np.array([1, 1_000_001])], [np.array([1, 1_000_000])]).agree
    assert not difference([np.array([True])], [np.array([False])]).agree


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ([np.zeros(2)], [np.zeros(2), np.zeros(2)]),
        ([np.zeros((2, 1))], [np.zeros(2)]),
        ([np.array([1.0, np.nan])], [np.ones(2)]),
        ([np.ones(2)], [np.array([1.0, np.nan])]),
        ([np.array([np.inf])], [np.array([-np.inf])]),
    ],
)
def test_what_no_tolerance_covers(actual, expected):
    result = difference(actual, expected)
    assert math.isinf(result.max_abs_error)
    assert not result.agree


def test_infinities_nans_empty_and_all_zero_outputs_can_agree():
    odd = np.array([np.inf, np.nan, 2.0], np.float32)
    assert difference([odd, np.zeros(0), np.zeros(3)], [odd.copy(), np.zeros(0), np.zeros(3)]).agree


def test_the_worst_output_counts():
    result = difference([np.ones(2), np.array([3.0])], [np.ones(2), np.array([4.0])])
    assert (result.max_abs_error, result.max_rel_error, result.agree) == (1.0, 0.25, False)
