from __future__ import annotations

import re

import pytest

from onnxsmith.errors import TensorError
from onnxsmith.model import TensorSpec, resolve_dims


def spec(name: str, *shape: int | str | None, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(name=name, kind="tensor", dtype=dtype, shape=shape)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (("batch", 3, 224, 224), (1, 3, 224, 224)),
        (("N", 3, "H", "W"), (1, 3, 224, 224)),
        ((None, 3, None, None), (1, 3, 224, 224)),
        ((None, None, None, 3), (1, 224, 224, 3)),
        (("batch", "channels", "height", "width"), (1, 1, 224, 224)),
        (("batch", 12, "past", 64), (1, 12, 1, 64)),
        (("batch", 12, "past_sequence_length", 64), (1, 12, 128, 64)),
        (("batch", "seq"), (1, 128)),
        (("batch_size", "sequence_length"), (1, 128)),
        ((None, None), (1, 128)),
        ((1, "tokens"), (1, 128)),
        ((None, 80, "frames"), (1, 80, 128)),
        (("s0", "s1", 768), (1, 128, 768)),
        ((2, None, 64), (2, 1, 64)),
        ((1, None, 64), (1, 128, 64)),
        (("num_images", 4), (1, 4)),
        ((5, "anything", 4, 4, "depth"), (5, 1, 4, 4, 1)),
        ((), ()),
        ((0, "n"), (0, 128)),
    ],
)
def test_default_by_name_and_rank(shape, expected):
    resolved = resolve_dims([spec("x", *shape)])
    assert resolved.shape(spec("x", *shape)) == expected


def test_what_nobody_asked_for_is_said_aloud():
    inputs = [spec("ids", "batch", "seq"), spec("image", None, 3, 8, 8)]
    resolved = resolve_dims(inputs, {"seq": 16})
    assert resolved.sizes == {"batch": 1, "seq": 16, "image.0": 1}
    assert resolved.defaulted == ("batch", "image.0")
    assert resolved.describe_defaults() == "taken by default: batch=1, image.0=1"
    assert resolve_dims(inputs, {"seq": 16, "batch": 2, "image.0": 3}).describe_defaults() is None


def test_one_name_has_one_size():
    inputs = [spec("a", "n", 4), spec("b", "n", "m")]
    resolved = resolve_dims(inputs, {"n": 3, "m": 5})
    assert [resolved.shape(one) for one in inputs] == [(3, 4), (3, 5)]


@pytest.mark.parametrize(
    ("inputs", "batch"),
    [
        ([spec("x", "batch", 4)], ("batch",)),
        ([spec("x", "Batch_Size", 4)], ("Batch_Size",)),
        ([spec("x", "N", 4)], ("N",)),
        ([spec("x", "n", 4), spec("y", "decoder_batch", 4)], ("decoder_batch",)),
        ([spec("x", "batch", 4), spec("y", "batch_size", 4), spec("z", "seq")], ("batch", "batch_size")),
        ([spec("x", "batch_size*heads", 4)], ("batch_size*heads",)),
        ([spec("x", None, 4), spec("y", None, None)], ("x.0", "y.0")),
        ([spec("x", 1, "batch", 64)], ("batch",)),
        ([spec("h", 2, None, 64)], ("h.1",)),
        ([spec("x", 1, "seq")], ()),
        ([spec("x", 1, 3, 8, 8)], ()),
        ([], ()),
    ],
)
def test_batch_dimension(inputs, batch):
    assert resolve_dims(inputs).batch == batch


def test_batch_is_an_alias_where_the_dimension_is_called_otherwise():
    inputs = [spec("x", None, 4), spec("y", None, 4)]
    assert resolve_dims(inputs, {"batch": 8}).sizes == {"x.0": 8, "y.0": 8}
    assert resolve_dims([spec("x", "N", 4)], {"batch": 8}).sizes == {"N": 8}
    assert resolve_dims([spec("x", "N", "batch")], {"batch": 8}).sizes == {"N": 1, "batch": 8}


def test_asked_wins_over_preferred_and_preferred_over_default():
    inputs = [spec("x", "batch", "seq", "width")]
    resolved = resolve_dims(inputs, {"batch": 2}, {"batch": 5, "seq": 6, "unheard_of": 7})
    assert resolved.sizes == {"batch": 2, "seq": 6, "width": 224}
    assert resolved.defaulted == ("width",)


def test_dimensions_that_follow_from_others():
    inputs = [
        spec("past", "batch", 8, "past_length", 64),
        spec("mask", "batch", "past_length + 1"),
        spec("wide", "2*batch", "(past_length - 4) // 2", "past_length / 0", "1 - past_length"),
    ]
    resolved = resolve_dims(inputs, {"past_length": 10, "batch": 3})
    assert resolved.shape(inputs[1]) == (3, 11)
    assert resolved.shape(inputs[2]) == (6, 3, resolved.sizes["past_length / 0"], 1)
    assert resolved.defaulted == ("past_length / 0",)
    assert resolve_dims(inputs, {"past_length + 1": 7}).sizes["past_length + 1"] == 7


@pytest.mark.parametrize("name", ["__import__('os')", "batch.real", "a b", "1 +", "f(batch)", "batch ** 99", "-batch"])
def test_other_names_are_names(name):
    resolved = resolve_dims([spec("x", "batch", 4, 5, 6, name)])
    assert resolved.sizes == {"batch": 1, name: 1}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"bach": 4}, "no dynamic dimension is called 'bach'. Did you mean 'batch'?"),
        ({"zzz": 4}, "no dynamic dimension is called 'zzz'.\nThe dynamic dimensions are: batch, x.2."),
        ({"x.1": 4}, "no dynamic dimension is called 'x.1'. Did you mean 'x.2'?"),
        ({"batch": 0}, "dimension 'batch' is asked to be 0; it must be at least 1."),
        ({"x.2": -3}, "dimension 'x.2' is asked to be -3; it must be at least 1."),
    ],
)
def test_bad_request(asked, message):
    with pytest.raises(TensorError, match=re.escape(message)) as caught:
        resolve_dims([spec("x", "batch", 3, None)], asked)
    assert caught.value.exit_code == 1


def test_request_where_everything_is_fixed():
    with pytest.raises(TensorError, match=re.escape("Every dimension is fixed: x[1, 3].")):
        resolve_dims([spec("x", 1, 3)], {"batch": 4})
    assert resolve_dims([spec("x", 1, 3)], preferred={"batch": 4}).sizes == {}


def test_unknown_rank():
    unknown = TensorSpec(name="x", kind="tensor", dtype="float32", shape=None)
    resolved = resolve_dims([unknown])
    with pytest.raises(TensorError, match="'x' has no declared rank") as caught:
        resolved.shape(unknown)
    assert caught.value.hint == "Give it: --input x=file.npy"
