"""When two runs agree."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from onnxsmith.graph_optimizer.agreement import compare_outputs


def outcome(expected, got):
    return compare_outputs({"y": expected}, {"y": got})


def test_the_tolerance_scales_with_the_output():
    large = np.array([1000.0, 0.0], np.float32)
    near = outcome(large, large + np.float32(0.5))
    assert near.agree is True
    assert near.max_abs_error == pytest.approx(0.5)
    far = outcome(large, large + np.float32(2))
    assert far.agree is False
    assert far.worst_output == "y"
    assert far.reason == "output 'y': the largest difference is 2, the tolerance 1"


@pytest.mark.parametrize(
    ("dtype", "agrees", "differs"),
    [
        (np.float64, 1e-7, 1e-5),
        (np.float32, 5e-4, 5e-3),
        (np.float16, 5e-3, 5e-2),
        (ml_dtypes.bfloat16, 2e-2, 2e-1),
    ],
)
def test_each_dtype_has_its_tolerance(dtype, agrees, differs):
    ones = np.ones(4)
    assert outcome(ones.astype(dtype), (ones + agrees).astype(dtype)).agree is True
    assert outcome(ones.astype(dtype), (ones + differs).astype(dtype)).agree is False


def test_not_a_number_must_stand_at_the_same_place():
    with_nan = np.array([1.0, np.nan, np.inf], np.float32)
    assert outcome(with_nan, with_nan).agree is True
    assert outcome(with_nan, with_nan).max_abs_error == 0.0
    assert outcome(with_nan, np.array([1.0, 2.0, np.inf], np.float32)).agree is False
    assert outcome(with_nan, np.array([1.0, np.nan, -np.inf], np.float32)).agree is False


def test_all_zero_outputs_have_no_tolerance():
    zeros = np.zeros(3, np.float32)
    assert outcome(zeros, zeros).agree is True
    assert outcome(zeros, zeros + np.float32(1e-9)).agree is False


def test_integers_booleans_and_strings_must_be_equal():
    assert outcome(np.array([1, 2]), np.array([1, 2])).agree is True
    wrong = outcome(np.array([1, 2**40]), np.array([1, 2**40 + 3]))
    assert (wrong.agree, wrong.max_abs_error) == (False, 3.0)
    assert outcome(np.array([0], np.uint8), np.array([255], np.uint8)).max_abs_error == 255.0
    assert outcome(np.array([True]), np.array([False])).reason == "output 'y': 1 of 1 elements differ"
    words = np.array(["a", "b"], object)
    assert outcome(words, words).agree is True
    assert outcome(words, np.array(["a", "c"], object)).agree is False


def test_shapes_and_dtypes_must_be_the_same():
    wrong = outcome(np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32))
    assert wrong.reason == "output 'y': float32[3, 2] instead of float32[2, 3]"
    assert outcome(np.zeros(2, np.float32), np.zeros(2)).agree is False


def test_empty_outputs_agree():
    assert outcome(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).agree is True
    assert outcome(np.zeros(0, np.int64), np.zeros(0, np.int64)).agree is True
    assert compare_outputs({}, {}).agree is True


def test_sequences_and_maps_are_compared_by_element():
    one = np.ones(2, np.float32)
    assert outcome([one, {"a": 0.5}], [one, {"a": 0.5}]).agree is True
    assert outcome([one], [one, one]).reason == "output 'y': the lengths of the sequences differ"
    assert outcome([{"a": 0.5}], [{"b": 0.5}]).reason == "output 'y': the keys differ"
    assert outcome([{"a": 0.5}], [{"a": 0.6}]).agree is False
    assert outcome(None, None).agree is True
    assert outcome(one, None).agree is False


def test_the_worst_output_is_named():
    expected = {"a": np.ones(2, np.float32), "b": np.full(2, 100, np.float32)}
    got = {"a": np.ones(2, np.float32) + np.float32(0.01), "b": np.full(2, 100.05, np.float32)}
    agreement = compare_outputs(expected, got)
    assert (agreement.agree, agreement.worst_output) == (False, "a")
    assert agreement.max_abs_error == pytest.approx(0.05, rel=1e-3)
    assert compare_outputs({"a": np.ones(1)}, {"b": np.ones(1)}).agree is False
