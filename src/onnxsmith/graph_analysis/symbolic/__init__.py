"""What is known of values without running the model: shapes with symbols in them, dtypes, contents."""

from onnxsmith.graph_analysis.symbolic.dims import (
    Dim,
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
from onnxsmith.graph_analysis.symbolic.facts import Facts

__all__ = [
    "Dim",
    "Expr",
    "Facts",
    "add",
    "ceil_div",
    "dim_max",
    "dim_min",
    "exact_div",
    "floor_div",
    "fresh_symbol",
    "is_nonnegative",
    "is_not_one",
    "is_positive",
    "make_symbol",
    "mod",
    "mul",
    "product",
    "sub",
]
