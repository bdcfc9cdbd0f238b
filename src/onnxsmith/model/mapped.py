"""Weights that lie in a model's own file and stay there until something reads them."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from functools import partial
from mmap import ACCESS_READ, ALLOCATIONGRANULARITY, mmap
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx
import onnx_ir as ir

from onnxsmith.errors import ModelFileError
from onnxsmith.model.wire import Marks, Span

_CHUNK = 1 << 24


class OpenFile:
    """A file held open, so that its bytes are there even when its name leads elsewhere."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        weakref.finalize(self, os.close, self._descriptor)
        self._state = self._current_state()

    def _current_state(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns

    def require_unchanged(self) -> None:
        """Checks that nobody wrote to the file; reading what was cut off would end the process.

        Raises:
            ModelFileError: Somebody did.
        """
        if self._current_state() != self._state:
            raise ModelFileError(
                f"{self.path}: was written to after it was loaded, and its weights had not been read yet.",
                "Load it again. A file that is replaced (renamed over) instead of written to does no harm.",
            )

    def mapped(self) -> mmap:
        """All of it."""
        return mmap(self._descriptor, 0, access=ACCESS_READ)

    def view(self, offset: int, length: int) -> memoryview:
        """Some of its bytes, mapped for as long as the view lives."""
        self.require_unchanged()
        before = offset % ALLOCATIONGRANULARITY
        return memoryview(mmap(self._descriptor, before + length, access=ACCESS_READ, offset=offset - before))[before:]

    def copy(self, offset: int, length: int, target: BinaryIO) -> None:
        """Copies some of its bytes to the end of another file, in the kernel where that is possible."""
        self.require_unchanged()
        end = offset + length
        target.flush()
        while offset < end:
            try:
                copied = os.copy_file_range(self._descriptor, target.fileno(), end - offset, offset)
            except (OSError, AttributeError):
                # Another file system, or not Linux; what really is the matter shows below.
                break
            if copied == 0:
                break
            offset += copied
        while offset < end:
            count = min(_CHUNK, end - offset)
            target.write(self.view(offset, count))
            offset += count


class MappedTensor(ir.LazyTensor):
    """A tensor whose bytes lie in its model's file.

    Each reader gets a mapping of its own, which goes when its array does.

    Attributes:
        file: The file.
    """

    __slots__ = ("_span", "file")

    def __init__(self, file: OpenFile, span: Span, tensor: ir.TensorProtoTensor) -> None:
        """Takes the place of the tensor that onnx-ir read from a message whose data was left in the file."""
        dtype, shape = tensor.dtype, ir.Shape(tensor.shape.numpy(), frozen=True)
        super().__init__(
            partial(_read, file, span, dtype, shape),
            dtype,
            shape,
            name=tensor.name,
            doc_string=tensor.doc_string,
            metadata_props=dict(tensor.metadata_props),
        )
        self.file = file
        self._span = span

    def tobytes(self) -> bytes:
        """A copy of the bytes."""
        return bytes(self.file.view(*self._span))

    def tofile(self, file: Any) -> None:
        """Writes the bytes to a file, or to anything with `write`."""
        if hasattr(file, "fileno"):
            self.file.copy(*self._span, file)
        else:
            file.write(self.file.view(*self._span))


def _read(file: OpenFile, span: Span, dtype: ir.DataType, shape: ir.Shape) -> ir.TensorProtocol:
    """The tensor, mapped and read-only; numbers of less than a byte are unpacked into memory."""
    view = file.view(*span)
    if dtype.bitwidth < 8:
        return ir.TensorProtoTensor(onnx.TensorProto(data_type=dtype, dims=shape.numpy(), raw_data=bytes(view)))
    array = np.frombuffer(view, np.dtype(dtype.numpy()).newbyteorder("<"))
    return ir.Tensor(array.reshape(shape.numpy()), dtype=dtype)


class LeftInFile:
    """What was left out of a message that was read from a file."""

    def __init__(self, file: OpenFile, marks: Marks, spans: Sequence[Span]) -> None:
        self._file = file
        self._marks = marks
        self._spans = spans

    def __contains__(self, proto: object) -> bool:
        return isinstance(proto, onnx.TensorProto) and self._marks.number(proto.raw_data) is not None

    def tensor(self, tensor: ir.TensorProtoTensor) -> MappedTensor:
        """The tensor that onnx-ir would have read, had its data not been left out."""
        number = self._marks.number(tensor.raw.raw_data)
        assert number is not None
        return MappedTensor(self._file, self._spans[number], tensor)
