"""Protobuf's wire format, as far as it takes to leave large raw data out of a message and to put it back.

A mark stands where raw data was: a number behind a token, drawn at random for each message, so that nothing else in it
is the same. `leave_out` makes a message with marks from a file's bytes, `put_back` a file's pieces from such a message.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from mmap import mmap

import onnx

Span = tuple[int, int]
"""An offset and a length, in bytes."""

_Field = tuple[int, int, int, int, int]
_Rewrite = Callable[[int, int], bytes | None]

_TOKEN_BYTES = 16
_MARK_BYTES = _TOKEN_BYTES + 8
_MAX_DEPTH = 50
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER = 1, 5
_NODE_ATTRIBUTE = 5
_ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPH, _ATTRIBUTE_TYPE = 5, 6, 20
_ATTRIBUTE_TEXT = frozenset({1, 13})
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_RAW = 1, 2, 9
_TENSOR_TEXT = frozenset({8, 12, 16})
_TYPES_BY_BITS = {
    2: ("UINT2", "INT2"),
    4: ("UINT4", "INT4", "FLOAT4E2M1"),
    6: ("FLOAT6E2M3", "FLOAT6E3M2"),
    8: ("UINT8", "INT8", "BOOL", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0"),
    16: ("UINT16", "INT16", "FLOAT16", "BFLOAT16"),
    32: ("UINT32", "INT32", "FLOAT"),
    64: ("UINT64", "INT64", "DOUBLE", "COMPLEX64"),
    128: ("COMPLEX128",),
}
_KINDS: dict[str, int] = dict(onnx.TensorProto.DataType.items())
_BITS = {_KINDS[name]: bits for bits, names in _TYPES_BY_BITS.items() for name in names if name in _KINDS}


class UnusualError(ValueError):
    """The bytes are not laid out as a protobuf writer does it; protobuf's own reader shall judge them."""


class Marks:
    """The marks of one message."""

    def __init__(self) -> None:
        self.token = os.urandom(_TOKEN_BYTES)

    def mark(self, number: int) -> bytes:
        """What stands for the raw data of that number."""
        return self.token + number.to_bytes(8, "little")

    def number(self, data: bytes) -> int | None:
        """The number in a mark, or None where the data is no mark."""
        if len(data) != _MARK_BYTES or not data.startswith(self.token):
            return None
        return int.from_bytes(data[_TOKEN_BYTES:], "little")


def leave_out(data: mmap | bytes, marks: Marks, threshold: int) -> tuple[bytes, list[Span]]:
    """A serialised model with marks in place of raw data, where that has more than `threshold` bytes.

    It is left out of initializers and of tensor attributes, in subgraphs too, and only where a tensor has nothing but
    what every writer writes, and its data the size that its shape and dtype say.

    Returns:
        The message, and where in `data` each raw data lies, by the mark's number.

    Raises:
        UnusualError: The bytes are cut off, or no usual protobuf.
    """
    scan = _Scan(data, marks, threshold)
    try:
        message = scan.model(0, len(data))
    except IndexError:
        raise UnusualError("cut off") from None
    return data[:] if message is None else message, scan.spans


def put_back(message: bytes, marks: Marks, lengths: Sequence[int]) -> tuple[list[memoryview | int], int]:
    """The pieces of a message whose marks give way to raw data.

    Args:
        message: A serialised message with marks.
        marks: Its marks.
        lengths: The bytes that come in place of each mark, by its number.

    Returns:
        The pieces in order, each bytes or the number of the raw data that goes there; and the size of all of it.
    """
    places = []
    at = message.find(marks.token)
    while at >= 0:
        places.append(at)
        at = message.find(marks.token, at + _MARK_BYTES)
    pieces: list[memoryview | int] = []
    return pieces, _Expansion(message, marks, places, lengths).expand(0, len(message), pieces)


class _Scan:
    """Leaves raw data out. Each method gets a message's place, and returns its new bytes, or None for no change.

    Attributes:
        spans: The raw data left out so far.
    """

    def __init__(self, data: mmap | bytes, marks: Marks, threshold: int) -> None:
        self.spans: list[Span] = []
        self._data = data
        self._marks = marks
        self._threshold = threshold
        self._depth = 0

    def model(self, start: int, end: int) -> bytes | None:
        return self._rewrite(start, end, {_MODEL_GRAPH: self._graph})

    def _graph(self, start: int, end: int) -> bytes | None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise UnusualError("nested deep")
        message = self._rewrite(start, end, {_GRAPH_NODE: self._node, _GRAPH_INITIALIZER: self._tensor})
        self._depth -= 1
        return message

    def _node(self, start: int, end: int) -> bytes | None:
        return self._rewrite(start, end, {_NODE_ATTRIBUTE: self._attribute})

    def _attribute(self, start: int, end: int) -> bytes | None:
        kind, inner = 0, []
        for number, wire, _, payload, _ in _fields(self._data, start, end):
            if number == _ATTRIBUTE_TYPE and wire == _VARINT:
                kind, _ = _varint(self._data, payload)
            elif number in (_ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPH):
                inner.append(number)
            elif number not in _ATTRIBUTE_TEXT:
                return None
        if kind == onnx.AttributeProto.TENSOR and inner == [_ATTRIBUTE_TENSOR]:
            return self._rewrite(start, end, {_ATTRIBUTE_TENSOR: self._tensor})
        if kind == onnx.AttributeProto.GRAPH and inner == [_ATTRIBUTE_GRAPH]:
            return self._rewrite(start, end, {_ATTRIBUTE_GRAPH: self._graph})
        return None

    def _tensor(self, start: int, end: int) -> bytes | None:
        data = self._data
        dims: list[int] = []
        kind, raw = 0, None
        for number, wire, at, payload, stop in _fields(data, start, end):
            if number == _TENSOR_RAW and wire == _BYTES and raw is None:
                raw = at, payload, stop
            elif number == _TENSOR_DIMS and wire == _VARINT:
                dims.append(_varint(data, payload)[0])
            elif number == _TENSOR_DIMS and wire == _BYTES:
                dims += _varints(data, payload, stop)
            elif number == _TENSOR_TYPE and wire == _VARINT:
                kind, _ = _varint(data, payload)
            elif number not in _TENSOR_TEXT or wire != _BYTES:
                return None
        if raw is None:
            return None
        at, payload, stop = raw
        length = stop - payload
        if length <= self._threshold or length != _bytes_needed(kind, dims):
            return None
        mark = self._marks.mark(len(self.spans))
        self.spans.append((payload, length))
        return data[start:at] + bytes([_TENSOR_RAW << 3 | _BYTES, len(mark)]) + mark + data[stop:end]

    def _rewrite(self, start: int, end: int, rewrites: dict[int, _Rewrite]) -> bytes | None:
        data, threshold = self._data, self._threshold
        pieces: list[bytes] = []
        copied = start
        for number, wire, at, payload, stop in _fields(data, start, end):
            if stop - payload > threshold and wire == _BYTES and number in rewrites:
                inner = rewrites[number](payload, stop)
                if inner is not None:
                    pieces += [data[copied:at], _header(number, len(inner)), inner]
                    copied = stop
        return b"".join([*pieces, data[copied:end]]) if pieces else None


class _Expansion:
    def __init__(self, message: bytes, marks: Marks, places: list[int], lengths: Sequence[int]) -> None:
        self._message = message
        self._view = memoryview(message)
        self._marks = marks
        self._places = places
        self._lengths = lengths

    def expand(self, start: int, end: int, pieces: list[memoryview | int]) -> int:
        """Adds the pieces of the message in `start:end`, and returns their size."""
        size = 0
        copied = start
        next_place = bisect_left(self._places, start)
        last = bisect_left(self._places, end)
        for number, _, at, payload, stop in _fields(self._message, start, end):
            if next_place == last:
                break
            place = self._places[next_place]
            if place >= stop:
                continue
            next_place = bisect_left(self._places, stop)
            inner: list[memoryview | int] = []
            mark = self._marks.number(self._message[payload:stop]) if payload == place else None
            if mark is not None:
                length = self._lengths[mark]
                inner.append(mark)
            else:
                length = self.expand(payload, stop, inner)
            header = memoryview(_header(number, length))
            pieces += [self._view[copied:at], header, *inner]
            size += at - copied + len(header) + length
            copied = stop
        pieces.append(self._view[copied:end])
        return size + end - copied


def _fields(data: mmap | bytes, position: int, end: int) -> Iterator[_Field]:
    """The fields of a message: number, wire type, where the field starts, where its payload does, and where it ends."""
    while position < end:
        start = position
        tag = data[position]
        position += 1
        if tag > 127:
            tag, position = _varint(data, start)
        wire = tag & 7
        if wire == _BYTES:
            length = data[position]
            position += 1
            if length > 127:
                length, position = _varint(data, position - 1)
            payload = position
            position += length
        else:
            payload = position
            if wire == _VARINT:
                _, position = _varint(data, position)
            elif wire in (_FIXED32, _FIXED64):
                position += 4 if wire == _FIXED32 else 8
            else:
                raise UnusualError("a group")
        if position > end or tag < 8:
            raise UnusualError("cut off")
        yield tag >> 3, wire, start, payload, position


def _varint(data: mmap | bytes, position: int) -> tuple[int, int]:
    """A number, and where what follows it starts."""
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7
        if shift > 63:
            raise UnusualError("a number of more than ten bytes")


def _varints(data: mmap | bytes, position: int, end: int) -> Iterator[int]:
    while position < end:
        number, position = _varint(data, position)
        yield number


def _header(number: int, length: int) -> bytes:
    return _as_varint(number << 3 | _BYTES) + _as_varint(length)


def _as_varint(number: int) -> bytes:
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def _bytes_needed(kind: int, dims: list[int]) -> int | None:
    try:
        return math.ceil(math.prod(dims) * _BITS[kind] / 8)
    except (KeyError, OverflowError):
        return None
