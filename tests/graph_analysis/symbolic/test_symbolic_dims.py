"""Polynomials over sizes: equal ones are equal, and what is proven is right for every size."""

import itertools
import math

import pytest

from onnxsmith.graph_analysis.symbolic import (
    Expr,
    add,
    ceil_div,
    dim_max,
    dim_min,
    exact_div,
    floor_div,
    fresh_symbol,
    is_nonnegative,
    is_not_one,
    is_positive,
    make_symbol,
    mod,
    mul,
    product,
    sub,
)
from onnxsmith.graph_analysis.symbolic.dims import TooComplex, is_cut_off

BATCH, SEQ = make_symbol("batch"), make_symbol("seq")


def value(dim, **sizes):
    """What an expression comes to for given sizes."""
    if isinstance(dim, int):
        return dim
    functions = {"floordiv": lambda one, other: one // other, "min": min, "max": max}
    total = 0
    for monomial, coefficient in dim.terms.items():
        factors = [
            functions[atom.name](*(value(argument, **sizes) for argument in atom.arguments))
            if atom.arguments
            else sizes[atom.name]
            for atom in monomial
        ]
        total += coefficient * math.prod(factors)
    return total


def test_one_name_is_one_symbol():
    assert make_symbol("batch") == BATCH
    assert hash(make_symbol("batch")) == hash(BATCH)
    assert BATCH != SEQ
    assert fresh_symbol() != fresh_symbol()


def test_equal_polynomials_are_equal():
    assert (BATCH + 1) * (SEQ + 2) == SEQ * BATCH + SEQ + 2 * BATCH + 2
    assert BATCH + SEQ - BATCH == SEQ
    assert sub(BATCH, BATCH) == 0
    assert mul(BATCH, 0) == 0
    assert product([BATCH, 12, SEQ, 64]) == 768 * SEQ * BATCH
    assert str(BATCH * 12 * 64 + 1) == "1 + 768*batch"
    assert (BATCH * SEQ + 3).symbols == {"batch", "seq"}


def test_exact_division():
    assert exact_div(BATCH * 12 * 64, 64) == BATCH * 12
    assert exact_div(BATCH * SEQ * 768, BATCH * 12) == SEQ * 64
    assert exact_div((BATCH + 1) * (SEQ + 2), SEQ + 2) == BATCH + 1
    assert exact_div((BATCH + SEQ) * (BATCH - SEQ), BATCH + SEQ) == BATCH - SEQ
    assert exact_div(BATCH + 1, 2) is None
    assert exact_div(BATCH * 2 + SEQ, SEQ) is None
    assert exact_div(7, 2) is None
    assert exact_div(BATCH, 0) is None
    assert exact_div(0, BATCH) == 0


def test_what_is_proven():
    assert is_nonnegative(BATCH)
    assert not is_positive(BATCH), "a size may be 0"
    assert is_positive(BATCH * 3 + 1)
    assert not is_nonnegative(BATCH - 1)
    assert is_not_one(BATCH * 2)
    assert is_not_one(BATCH + 2)
    assert not is_not_one(BATCH + 1)
    assert is_cut_off(dim_min(512, SEQ), SEQ)
    assert not is_cut_off(dim_min(BATCH, SEQ), SEQ)


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, -2])
def test_division_rounds_down_for_every_size(divisor):
    dims = [BATCH, BATCH + 1, BATCH * 6 + 5, BATCH * 2 - SEQ * 3 - 1, mul(BATCH, SEQ)]
    for dim, batch, seq in itertools.product(dims, range(5), range(5)):
        expected = value(dim, batch=batch, seq=seq)
        assert value(floor_div(dim, divisor), batch=batch, seq=seq) == expected // divisor
        assert value(mod(dim, divisor), batch=batch, seq=seq) == expected % divisor
        if divisor > 0:
            assert value(ceil_div(dim, divisor), batch=batch, seq=seq) == -(-expected // divisor)


def test_min_and_max_for_every_size():
    dims = [0, 1, 3, BATCH, BATCH + 1, SEQ, BATCH - 2, dim_min(BATCH, SEQ)]
    for left, right in itertools.product(dims, dims):
        for batch, seq in itertools.product(range(5), range(5)):
            one, other = value(left, batch=batch, seq=seq), value(right, batch=batch, seq=seq)
            assert value(dim_min(left, right), batch=batch, seq=seq) == min(one, other)
            assert value(dim_max(left, right), batch=batch, seq=seq) == max(one, other)
        assert dim_min(left, right) == dim_min(right, left)


def test_the_longest_expressions_are_refused():
    total = BATCH
    with pytest.raises(TooComplex):
        for _ in range(100):
            total = add(total, fresh_symbol())
    deep: Expr = BATCH
    with pytest.raises(TooComplex):
        for _ in range(100):
            deep = floor_div(add(deep, 1), 2)


def test_division_by_zero_is_an_error():
    with pytest.raises(ZeroDivisionError):
        floor_div(BATCH, 0)
