"""Which inputs an optimised model is held against the original on."""

import numpy as np
import onnx_ir as ir
import pytest
from core_helpers import floats, model_of

from onnxsmith.config import Config
from onnxsmith.errors import TensorError
from onnxsmith.graph_optimizer.half_precision import half_outputs
from onnxsmith.graph_optimizer.numeric_check import NumericCheck
from onnxsmith.model import Model

TEXT = "g (float[batch, 3] x) => (float[batch, 3] y) {{ {} }}"


def check(body, **options):
    return NumericCheck(model_of(TEXT.format(body)), Config(), **options)


def verdict(body, other, **options):
    return check(body, **options).verify(model_of(TEXT.format(other)))


def kinds(verification):
    return [item.kind for item in verification.checks]


def test_all_kinds_are_tried():
    verification = verdict("y = Relu(x)", "a = Relu(x) y = Relu(a)")
    assert verification.agree is True
    assert kinds(verification) == ["normal", "uniform", "zeros", "large", "nan", "other sizes"]
    assert all(item.agreement.max_abs_error == 0.0 for item in verification.checks)


@pytest.mark.parametrize(
    ("body", "other", "kind"),
    [
        ("y = Relu(x)", "y = Identity(x)", "normal"),
        ("y = Identity(x)", "z = Constant <value_float = 0.0> () n = IsNaN(x) y = Where(n, z, x)", "nan"),
        ("y = Identity(x)", "c = Constant <value_float = 100.0> () y = Min(x, c)", "large"),
        ("y = Relu(x)", "c = Constant <value_ints = [1, 3]> () a = Relu(x) y = Reshape(a, c)", "other sizes"),
    ],
)
def test_each_kind_finds_what_the_ones_before_it_do_not(body, other, kind):
    verification = verdict(body, other)
    assert verification.agree is False
    assert verification.reason.startswith(f"on {kind} inputs: output 'y'") or (
        kind == "other sizes" and "it does not run where the original does" in verification.reason
    )


def test_a_rewrite_may_differ_by_a_tenth_of_the_tolerance():
    near = "c = Constant <value_float = 1.00005> () y = Mul(x, c)"
    far = "c = Constant <value_float = 1.0005> () y = Mul(x, c)"
    assert verdict("y = Identity(x)", near).agree is True
    assert verdict("y = Identity(x)", far).agree is False


def test_given_inputs_come_first_and_leave_nothing_to_sample():
    verification = verdict("y = Relu(x)", "y = Identity(x)", feeds={"x": floats([1, 2, 3])})
    assert (verification.agree, kinds(verification)) == (True, ["given"])


def test_sizes_that_are_asked_for_are_kept():
    numbers = check("y = Relu(x)", sizes={"batch": 4})
    verification = numbers.verify(model_of(TEXT.format("y = Relu(x)")))
    assert kinds(verification) == ["normal", "uniform", "zeros", "large", "nan"]
    assert numbers.feeds_of("zeros")["x"].shape == (4, 3)
    assert not numbers.feeds_of("zeros")["x"].any()
    assert np.isnan(numbers.feeds_of("nan")["x"]).sum() == 1
    assert 0 <= numbers.feeds_of("uniform")["x"].min() <= numbers.feeds_of("uniform")["x"].max() <= 1
    assert np.abs(numbers.feeds_of("large")["x"]).max() > 100
    assert numbers.feeds_of("no such")["x"] is numbers.feeds_of("normal")["x"]


def test_a_kind_that_the_original_fails_on_says_nothing():
    """A Gather whose index is far outside on large inputs."""
    text = (
        "g (float[4] x) => (float[4] y) <int64[1] k = {0}> "
        "{ c = Cast <to = 7> (x) m = Abs(c) o = Constant <value_int = 5> () l = Min(m, o) y = Gather(x, l) }"
    )
    model = model_of(text)
    verification = NumericCheck(model, Config()).verify(model_of(text))
    assert verification.agree is True
    assert "large" not in kinds(verification)
    assert "normal" in kinds(verification)


def test_an_original_that_does_not_run_cannot_be_compared():
    verification = verdict("y = custom.Odd(x)", "y = Relu(x)")
    assert verification.agree is None
    assert verification.reason.startswith("the original does not run on these inputs: ")


def test_a_model_that_does_not_run_where_the_original_does_is_wrong():
    verification = verdict("y = Relu(x)", "y = custom.Odd(x)")
    assert verification.agree is False
    assert verification.reason.startswith("it does not run where the original does: ")
    assert "Odd" in check("y = Relu(x)").differs(model_of(TEXT.format("y = custom.Odd(x)")))
    assert check("y = Relu(x)").differs(model_of(TEXT.format("y = Relu(x)"))) is None


def test_two_runs_that_differ_cannot_be_compared():
    verification = verdict("y = RandomNormalLike(x)", "y = RandomNormalLike(x)")
    assert verification.agree is None
    assert verification.reason == "two runs of the original differ: it has random operators (RandomNormalLike)"


def test_a_model_that_does_not_run_is_wrong_even_where_the_original_is_random():
    lost = "a = RandomNormalLike(x) b = Constant <value_ints = [7, 7]> () y = Reshape(a, b)"
    verification = verdict("y = RandomNormalLike(x)", lost)
    assert verification.agree is False
    assert verification.reason.startswith("it does not run where the original does")


def test_inputs_that_cannot_be_made_are_said():
    proto = model_of("g (float[2] x) => (float[2] y) { y = Relu(x) }").to_proto()
    for value in (proto.graph.input[0], proto.graph.output[0]):
        value.type.tensor_type.ClearField("shape")
    model = Model.from_proto(proto)
    verification = NumericCheck(model, Config()).verify(model)
    assert verification.agree is None
    assert verification.reason == (
        "no inputs could be made: input 'x' has no declared rank, so no sample can be made for it."
    )
    assert NumericCheck(model, Config(), {"x": floats(1, 2)}).verify(model).agree is True


def test_what_is_sampled_beside_given_inputs_has_sizes_that_agree():
    text = "g (float[n, 2] x, float[n, 2] z) => (float[n, 2] y) {{ {} }}"
    numbers = NumericCheck(model_of(text.format("y = Add(x, z)")), Config(), {"x": np.ones((5, 2), np.float32)})
    verification = numbers.verify(model_of(text.format("y = Sub(x, z)")))
    assert verification.agree is False
    assert numbers.feeds_of("given")["z"].shape == (5, 2)
    assert [item.kind for item in verification.checks] == ["given", "uniform", "zeros", "large", "nan"]
    assert [item.agreement.agree for item in verification.checks][2] is True


def test_given_inputs_that_do_not_fit_are_an_error():
    with pytest.raises(TensorError, match="no input 'z'"):
        check("y = Relu(x)", feeds={"z": floats(1)}).verify(model_of(TEXT.format("y = Relu(x)")))


OVERRIDABLE = """<ir_version: {}, opset_import: ["": 21]>
g (float[3] x, float[3] w, bool b, int64[2] k) => (float[3] y, int64[2] n)
<float[3] w = {{1, 2, 3}}, bool b = {{1}}, int64[2] k = {{5, 5}}> {{ {} n = Identity(k) }}"""


def overridable(body, ir_version=8):
    return model_of(OVERRIDABLE.format(ir_version, body), header="")


def test_initializers_that_a_caller_can_override_are_tried_with_other_contents():
    right = "m = Mul(x, w) y = Where(b, m, x)"
    numbers = NumericCheck(overridable(right), Config())
    verification = numbers.verify(overridable(right))
    assert verification.agree is True
    assert kinds(verification)[-2:] == ["overridden", "overridden counts"]
    assert numbers.feeds_of("overridden")["w"].tolist() == [1.375, 2.625, 3.875]
    assert not numbers.feeds_of("overridden counts")["b"]
    assert numbers.feeds_of("overridden counts")["k"].tolist() == [6, 6]
    folded = "c = Constant <value_floats = [1.0, 2.0, 3.0]> () m = Mul(x, c) y = Where(b, m, x)"
    assert numbers.differs(overridable(folded)).startswith("on overridden inputs: output 'y'")
    assert numbers.differs(overridable("y = Mul(x, w)")).startswith("on overridden counts inputs: output 'y'")
    assert NumericCheck(overridable(right, 3), Config()).verify(overridable(folded, 3)).agree is True


@pytest.mark.parametrize(
    ("dtype", "one", "more", "agree"), [("float16", "15360", "15362", True), ("float", "1.0", "1.002", False)]
)
def test_half_precision_has_the_usual_tolerance(dtype, one, more, agree):
    def scaled(number):
        w = f"<{dtype}[1] w = {{{number}}}>"
        return model_of(f"g (float[3] x) => (float[3] y) {w} {{ a = CastLike(x, w) b = Mul(a, w) y = CastLike(b, x) }}")

    assert NumericCheck(scaled(one), Config()).verify(scaled(more)).agree is agree


def test_half_precision_counts_only_for_the_outputs_that_it_has_a_part_in():
    def two(number):
        return model_of(f"""g (float[3] x) => (float[3] y, float[3] z) <float[1] k = {{{number}}}> {{
            h = Cast <to = 10> (x) s = Mul(h, h) y = Cast <to = 1> (s)
            z = Mul(x, k)
        }}""")

    assert half_outputs(two("1.0")) == {"y": ir.DataType.FLOAT16}
    reason = NumericCheck(two("1.0"), Config()).differs(two("1.002"))
    assert "output 'z'" in reason


def test_weights_that_are_only_stored_in_half_precision_loosen_nothing():
    def stored(number):
        return model_of(f"""g (float[3] x) => (float[3] y) <float16[1] w = {{15360}}, float[1] k = {{{number}}}> {{
            f = Cast <to = 1> (w) a = Mul(x, f) y = Mul(a, k)
        }}""")

    assert half_outputs(stored("1.0")) == {}
    assert NumericCheck(stored("1.0"), Config()).verify(stored("1.002")).agree is False


def test_half_precision_in_a_branch_and_the_coarser_of_two():
    model = model_of("""g (float[2] x, bool c) => (float[2] y, int64[1] s, float[2] z) {
        b = If (c) <then_branch = t () => (float[2] u) { h = Cast <to = 16> (x) u = Cast <to = 1> (h) },
                    else_branch = e () => (float[2] v) { v = Identity(x) }>
        f = Cast <to = 10> (x) g2 = Cast <to = 1> (f) y = Add(b, g2)
        s = Shape(y) z = Neg(x)
    }""")
    assert half_outputs(model) == {"y": ir.DataType.BFLOAT16}
