"""Operators on signals: windows and transforms."""

from __future__ import annotations

import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic.call import Call, PartialShape, rule
from onnxsmith.graph_analysis.symbolic.dims import Dim, add, floor_div, sub


def _window_dtype(call: Call) -> ir.DataType:
    return ir.DataType(call.integer("output_datatype", int(ir.DataType.FLOAT)))


@rule("BlackmanWindow", "HammingWindow", "HannWindow", dtypes=_window_dtype)
def _window(call: Call) -> list[PartialShape]:
    found = call.input(0).contents
    size = found[0] if found else None
    return [[None if isinstance(size, float) else size]]


@rule("STFT")
def _stft(call: Call) -> list[PartialShape]:
    batch, length = call.shape(0)[:2]
    (step,) = call.numbers(1)
    frame: Dim = call.shape(2)[0] if call.has(2) else call.numbers(3)[0]
    frames = add(floor_div(sub(length, frame), step), 1)
    bins = add(floor_div(frame, 2), 1) if call.integer("onesided", 1) else frame
    return [[batch, frames, bins, 2]]
