"""An ONNX file's bytes, read into a message."""

from __future__ import annotations

from pathlib import Path

import google.protobuf.message
import onnx

from onnxsmith.errors import ModelFileError
from onnxsmith.model.mapped import LeftInFile, OpenFile
from onnxsmith.model.messages import is_text
from onnxsmith.model.wire import Marks, UnusualError, leave_out

PROTOBUF_LIMIT = 2**31 - 1
"""The most bytes one protobuf message can have; a larger model needs external data."""

LEAVE_OUT = 1 << 12
"""Raw data of more than this many bytes stays in the file."""

_READ_WHOLE = 1 << 18
"""Files up to this size are read whole."""

_KINDS = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"PK\x03\x04": "a zip archive (a PyTorch checkpoint, perhaps)",
    b"\x80\x02": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"\x1f\x8b": "a gzip archive",
    b"\x89HDF": "an HDF5 file (a Keras model, perhaps)",
    b"version https://git-lfs": "a Git LFS pointer: run `git lfs pull`",
    b"<": "HTML or XML (a failed download, perhaps)",
}
_KINDS_AT_4 = {b"ORTM": "a model in ONNX Runtime's own format", b"TFL3": "a TensorFlow Lite model"}


def parse(path: Path, threshold: int = LEAVE_OUT) -> tuple[onnx.ModelProto, LeftInFile | None]:
    """Reads an ONNX file; its external data is not touched, and large raw data in it is not either.

    Args:
        path: The file.
        threshold: Raw data of more than this many bytes is left in the file, with a mark in its place.

    Returns:
        The message, and what was left out of it.

    Raises:
        ModelFileError: The file is missing, empty, unreadable, over 2 GB, no regular file, or not ONNX.
    """
    left = None
    try:
        if path.is_dir():
            raise ModelFileError(f"{path}: is a folder, not an ONNX file.", "Name the .onnx file in it.")
        size = path.stat().st_size
        if not path.is_file():
            raise ModelFileError(f"{path}: is a pipe or a device; name a file.")
        if size == 0:
            raise ModelFileError(f"{path}: is empty.", "The export or the download failed; make it again.")
        if size > PROTOBUF_LIMIT:
            raise ModelFileError(
                f"{path}: has {size:,} bytes; one ONNX file can have 2 GB at most.",
                "A model this large keeps its weights as external data; export it again that way.",
            )
        if size > _READ_WHOLE:
            data, left = _read_in_part(path, threshold)
        else:
            data = path.read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"{path}: there is no such file.", "Check the path.") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}.") from None
    try:
        proto = onnx.ModelProto.FromString(data)
    except google.protobuf.message.DecodeError as error:
        if "depth" in str(error).lower():
            raise ModelFileError(f"{path}: has graphs nested too deep for any ONNX reader.") from None
        raise ModelFileError(f"{path}: is not an ONNX model, or it is cut off.", _advice(data)) from None
    if not proto.HasField("graph"):
        raise ModelFileError(f"{path}: is not an ONNX model: there is no graph in it.", _advice(data))
    if not is_text(proto):
        raise ModelFileError(f"{path}: is damaged: it has names that are not UTF-8.", _advice(data))
    return proto, left


def _read_in_part(path: Path, threshold: int) -> tuple[bytes, LeftInFile | None]:
    file, marks = OpenFile(path), Marks()
    with file.mapped() as data:
        try:
            message, spans = leave_out(data, marks, threshold)
        except UnusualError:
            return data[:], None
    return message, LeftInFile(file, marks, spans)


def _advice(data: bytes) -> str:
    kind = next((kind for start, kind in _KINDS.items() if data.startswith(start)), _KINDS_AT_4.get(data[4:8]))
    return f"It looks like {kind}." if kind else "Check that the right file was named, and that it was copied whole."
