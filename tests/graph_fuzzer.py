"""The fuzzer with all of its steps, each as often as it is to be taken."""

from __future__ import annotations

from fuzzer_arithmetic import (
    arg_step,
    axis_step,
    binary_step,
    cast_step,
    clip_step,
    quantize_step,
    reduce_step,
    same_step,
    sigmoid_product_step,
    unary_step,
    where_step,
)
from fuzzer_control import if_step, loop_step
from fuzzer_core import Fuzzer, is_defined
from fuzzer_layout import (
    concat_step,
    expand_step,
    gather_step,
    misc_step,
    pad_step,
    reshape_step,
    shape_arithmetic_step,
    slice_step,
    split_step,
    squeeze_step,
    tile_step,
    transpose_step,
)
from fuzzer_networks import conv_step, gelu_step, gemm_step, layer_norm_step, matmul_step, pool_step

__all__ = ["Fuzzer", "is_defined"]

Fuzzer.steps = (
    [unary_step] * 5
    + [binary_step] * 7
    + [same_step] * 2
    + [cast_step] * 2
    + [reduce_step, arg_step, axis_step]
    + [transpose_step] * 3
)
Fuzzer.steps += (
    [reshape_step] * 3
    + [squeeze_step] * 2
    + [slice_step] * 2
    + [gather_step] * 2
    + [concat_step] * 2
    + [split_step, pad_step, pad_step, tile_step]
)
Fuzzer.steps += [
    expand_step,
    where_step,
    where_step,
    clip_step,
    clip_step,
    gemm_step,
    gemm_step,
    matmul_step,
    conv_step,
    conv_step,
    pool_step,
    layer_norm_step,
    gelu_step,
]
Fuzzer.steps += [sigmoid_product_step, quantize_step, misc_step, if_step, loop_step] + [shape_arithmetic_step] * 4
