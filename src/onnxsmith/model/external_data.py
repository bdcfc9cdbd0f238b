"""The data of tensors: every reference to a file is checked before a byte of it is read, and every size.

A model comes from strangers; a location such as `../../etc/passwd` must not reach a reader.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container
from pathlib import Path

import onnx
import onnx_ir as ir

from onnxsmith.errors import ExternalDataError, InvalidModelError
from onnxsmith.model.messages import all_tensors

_DATA_FIELDS = ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


def check_tensor_data(
    model: onnx.ModelProto, model_file: Path, left: Container[onnx.TensorProto] = ()
) -> tuple[Path, ...]:
    """Checks that the data of every tensor is there, and as large as its shape and dtype say.

    Args:
        model: The model, its external data not loaded.
        model_file: Its file; locations are relative to that file's folder.
        left: The tensors whose data was left in the file, where its size was seen to be right.

    Returns:
        The external files, each once, sorted.

    Raises:
        ExternalDataError: A location is absolute or leaves the folder, its file is missing, or it is too short.
        InvalidModelError: A tensor's dtype or shape makes no sense, or its data is not of that size.
    """
    checker = _Checker(model_file)
    for tensor in all_tensors(model):
        if tensor not in left:
            checker.check(tensor)
    return tuple(sorted(checker.sizes))


def embed(tensor: onnx.TensorProto, folder: Path) -> None:
    """Takes the data of an external tensor, which has been checked, into its message."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    with (folder / entries["location"]).open("rb") as file:
        file.seek(int(entries.get("offset", "0")))
        tensor.raw_data = file.read(int(entries["length"]) if "length" in entries else _size_in_bytes(tensor))
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")


class _Checker:
    """Checks one tensor after another of a model.

    Attributes:
        sizes: The external files met so far, and their sizes in bytes.
    """

    def __init__(self, model_file: Path) -> None:
        self.sizes: dict[Path, int] = {}
        self._file = model_file
        self._folder = model_file.absolute().parent
        self._roots = [self._folder.resolve()]
        if model_file.is_symlink():
            # A download cache keeps each file of a model elsewhere, and links to them from one folder.
            self._roots.append(model_file.resolve().parent)

    def check(self, tensor: onnx.TensorProto) -> None:
        needed = self._bytes_needed(tensor)
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            self._check_embedded(tensor, needed)
            return
        entries = {entry.key: entry.value for entry in tensor.external_data}
        path = self._safe_path(tensor, entries.get("location", ""))
        if path not in self.sizes:
            self.sizes[path] = self._size(tensor, path)
        self._check_range(tensor, entries, needed, path)

    def _bytes_needed(self, tensor: onnx.TensorProto) -> int:
        """The bytes that a tensor's shape and dtype ask for; for strings, their number."""
        if any(dim < 0 for dim in tensor.dims):
            raise InvalidModelError(
                f"{self._file}: tensor '{tensor.name}' has a negative dimension in its shape {list(tensor.dims)}."
            )
        if tensor.data_type == onnx.TensorProto.STRING:
            return math.prod(tensor.dims)
        try:
            return _size_in_bytes(tensor)
        except (ValueError, TypeError):
            raise InvalidModelError(f"{self._file}: tensor '{tensor.name}' has no known dtype.") from None

    def _check_embedded(self, tensor: onnx.TensorProto, needed: int) -> None:
        lengths = ((name, len(getattr(tensor, name))) for name in _DATA_FIELDS)
        field, length = next((held for held in lengths if held[1]), ("", 0))
        if not field:
            fits = needed == 0
        elif field == "raw_data":
            fits = length == needed and tensor.data_type != onnx.TensorProto.STRING
        else:
            fits = length == _entries_needed(tensor)
        if not fits:
            raise InvalidModelError(
                f"{self._file}: tensor '{tensor.name}' has shape {list(tensor.dims)}, and data of another size.",
                "The file is damaged, or was written by a faulty tool; export it again.",
            )

    def _safe_path(self, tensor: onnx.TensorProto, location: str) -> Path:
        if not location or "\0" in location:
            raise ExternalDataError(f"{self._file}: tensor '{tensor.name}' is external, but names no file.")
        path = self._folder / location
        try:
            # `resolve` follows links, so a link that leaves the folder is caught with the rest.
            real = path.resolve()
        except (OSError, RuntimeError):
            raise ExternalDataError(
                f"{self._file}: the weights of '{tensor.name}' are in '{location}', whose links lead nowhere."
            ) from None
        if Path(location).is_absolute() or not any(map(real.is_relative_to, self._roots)):
            raise ExternalDataError(
                f"{self._file}: tensor '{tensor.name}' points to '{location}', which is outside the model's folder.",
                "External data must lie beside the model or below it. Where it is a link, put the file itself there.",
            )
        return path

    def _size(self, tensor: onnx.TensorProto, path: Path) -> int:
        weights = f"{self._file}: the weights of '{tensor.name}' are in '{path.name}', which"
        try:
            status = path.stat()
        except OSError as error:
            raise ExternalDataError(
                f"{weights} cannot be read ({error.strerror}).", f"Put it beside the model: {path}"
            ) from None
        if not path.is_file():
            raise ExternalDataError(f"{weights} is not a file.")
        if status.st_nlink > 1:
            raise ExternalDataError(
                f"{weights} has several hard links, and ONNX's readers refuse that.",
                f"Replace it with a copy of itself: cp {path.name} copy && mv copy {path.name}",
            )
        return status.st_size

    def _check_range(self, tensor: onnx.TensorProto, entries: dict[str, str], needed: int, path: Path) -> None:
        if tensor.data_type == onnx.TensorProto.STRING:
            raise ExternalDataError(f"{self._file}: tensor '{tensor.name}' holds strings, which cannot be external.")
        for key in ("offset", "length"):
            if not re.fullmatch("[0-9]{1,19}", entries.get(key, "0")):
                raise ExternalDataError(
                    f"{self._file}: the {key} of tensor '{tensor.name}' in '{path.name}' is '{entries[key]}', "
                    "which is not a number of bytes."
                )
        offset = int(entries.get("offset", "0"))
        if int(entries.get("length", needed)) != needed:
            raise ExternalDataError(
                f"{self._file}: tensor '{tensor.name}' needs {needed:,} bytes for its shape {list(tensor.dims)}, "
                f"and claims {int(entries['length']):,} of '{path.name}'."
            )
        if offset + needed > self.sizes[path]:
            raise ExternalDataError(
                f"{self._file}: '{path.name}' is too short: tensor '{tensor.name}' needs bytes {offset:,} to "
                f"{offset + needed:,}, and the file has {self.sizes[path]:,}.",
                "The download or the copy was cut off; fetch the file again.",
            )


def _size_in_bytes(tensor: onnx.TensorProto) -> int:
    return math.ceil(math.prod(tensor.dims) * ir.DataType(tensor.data_type).bitwidth / 8)


def _entries_needed(tensor: onnx.TensorProto) -> int:
    """The entries of a typed field: a number each, two for a complex one; numbers of 2 and 4 bits share a byte."""
    size = math.prod(tensor.dims)
    match ir.DataType(tensor.data_type):
        case ir.DataType.COMPLEX64 | ir.DataType.COMPLEX128:
            return 2 * size
        case ir.DataType.INT4 | ir.DataType.UINT4 | ir.DataType.FLOAT4E2M1:
            return math.ceil(size / 2)
        case ir.DataType.INT2 | ir.DataType.UINT2:
            return math.ceil(size / 4)
        case _:
            return size
