"""The model type."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import google.protobuf.message
import onnx
import onnx_ir as ir

from onnxsmith.errors import InvalidModelError, ModelFileError, OutputError
from onnxsmith.model.external_data import check_external_data
from onnxsmith.model.saving import staged_folder
from onnxsmith.model.specs import TensorSpec, spec_of
from onnxsmith.records import Progress, no_progress

PROTOBUF_LIMIT = 2**31 - 1
"""The most bytes one protobuf message can have; a larger model needs external data."""

_EMBED_LIMIT = 1 << 30
"""Weights above this many bytes are saved as external data."""

_EXTERNAL_THRESHOLD = 1024
"""Tensors above this many bytes go to the external file, where there is one."""

_CHUNK = 1 << 22


class Model:
    """An ONNX model over onnx-ir.

    External weights stay memory-mapped until something reads them. Do not change `ir` in place where others hold the
    model: make a new `Model`.

    Attributes:
        ir: The onnx-ir model.
        path: The file it was loaded from, or None.
        external_files: The files that hold its external data.
    """

    def __init__(
        self,
        model: ir.Model,
        *,
        path: Path | None = None,
        external_files: tuple[Path, ...] = (),
        opaque_types: dict[str, bytes] | None = None,
    ) -> None:
        self.ir = model
        self.path = path
        self.external_files = external_files
        self._opaque_types = opaque_types or {}

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Loads a model, its external weights memory-mapped. Validity is checked by `analyse_native`.

        Args:
            path: An ONNX file.

        Raises:
            ModelFileError: The file is missing, empty, unreadable, over 2 GB, or not ONNX.
            ExternalDataError: External data is missing, too short, or outside the model's folder.
            InvalidModelError: The graph in the file cannot be read.
        """
        path = Path(path)
        proto = _parse(path)
        external = check_external_data(proto, path)
        return cls.from_proto(proto, path=path, external_files=external)

    @classmethod
    def from_proto(
        cls, proto: onnx.ModelProto, *, path: Path | None = None, external_files: tuple[Path, ...] = ()
    ) -> Model:
        """Wraps a protobuf model, which is used up: do not use it afterwards.

        Raises:
            InvalidModelError: The graph in it cannot be read.
        """
        opaque = _take_map_types(proto)
        try:
            model = ir.from_proto(proto)
        except (ir.serde.SerdeError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidModelError(f"{path or 'the model'}: the graph cannot be read: {_root_cause(error)}") from error
        if path is not None:
            folder = path.absolute().parent
            for graph in (model.graph, *(function.graph for function in model.functions.values())):
                ir.external_data.set_base_dir(graph, folder)
        return cls(model, path=path, external_files=external_files, opaque_types=opaque)

    def to_proto(self) -> onnx.ModelProto:
        """The model as protobuf; external tensors stay references.

        Raises:
            InvalidModelError: It has more than 2 GB of embedded weights.
        """
        try:
            proto = ir.to_proto(self.ir)
        except (ir.serde.SerdeError, google.protobuf.message.Error) as error:
            raise InvalidModelError(f"{self.name}: cannot be serialised: {_root_cause(error)}") from error
        for info in _value_infos(proto.graph):
            if info.name in self._opaque_types:
                info.type.ParseFromString(self._opaque_types[info.name])
        return proto

    @property
    def name(self) -> str:
        """The file's path, or the graph's name."""
        return str(self.path) if self.path is not None else self.ir.graph.name or "the model"

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs a caller must give: those that no initializer stands behind."""
        return tuple(
            self._spec(value) for value in self.ir.graph.inputs if value.name not in self.ir.graph.initializers
        )

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs."""
        return tuple(self._spec(value) for value in self.ir.graph.outputs)

    def _spec(self, value: ir.Value) -> TensorSpec:
        stored = self._opaque_types.get(value.name or "")
        return spec_of(value, onnx.TypeProto.FromString(stored) if stored is not None else None)

    @property
    def opset(self) -> int:
        """The version of the default operator domain, or 0 where it is not imported."""
        return self.ir.opset_imports.get("", 0)

    def graphs(self) -> Iterator[tuple[str, ir.Graph]]:
        """The main graph and every subgraph in it, each with where it stands: "", then "if_1/then_branch"."""
        yield from _walk_graphs(self.ir.graph, "")

    def nodes(self) -> Iterator[ir.Node]:
        """Every node of the main graph and its subgraphs; function bodies not included."""
        for _, graph in self.graphs():
            yield from graph

    @cached_property
    def size_bytes(self) -> int:
        """Bytes on disk, external data included; the serialised size where there is no file."""
        if self.path is None:
            return self.to_proto().ByteSize()
        return sum(file.stat().st_size for file in (self.path, *self.external_files))

    def digest(self, progress: Progress = no_progress) -> str:
        """SHA-256 over the model's file and then each external file, in the order of their names.

        A model without a file is hashed as it serialises.
        """
        digest = hashlib.sha256()
        if self.path is None:
            digest.update(self.to_proto().SerializeToString(deterministic=True))
            return digest.hexdigest()
        done = 0
        for file in (self.path, *self.external_files):
            with file.open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    digest.update(chunk)
                    done += len(chunk)
                    progress("hashing", done, self.size_bytes)
        return digest.hexdigest()

    def save(self, path: str | Path, *, external_data: bool | None = None) -> Path:
        """Saves the model: all of it or nothing, and never over the file it was loaded from.

        Args:
            path: Where to.
            external_data: True puts the weights in `<name>.data` beside it, False in the file; None keeps external what
                was external, and does so above 1 GiB.

        Returns:
            The path.

        Raises:
            OutputError: It would overwrite its own input, or cannot be written.
            InvalidModelError: The weights do not fit in one file.
        """
        path = Path(path)
        self.forbid_overwrite(path)
        if external_data is None:
            external_data = bool(self.external_files) or self._embedded_bytes() > _EMBED_LIMIT
        with staged_folder(path.absolute().parent) as staging:
            if external_data and not self._opaque_types:
                ir.save(
                    self.ir,
                    staging / path.name,
                    external_data=f"{path.name}.data",
                    size_threshold_bytes=_EXTERNAL_THRESHOLD,
                )
            else:
                proto = self.to_proto()
                try:
                    (staging / path.name).write_bytes(proto.SerializeToString())
                except (ValueError, google.protobuf.message.EncodeError):
                    raise InvalidModelError(
                        f"{path}: the weights are over 2 GB and do not fit in one file.", "Save them as external data."
                    ) from None
        return path

    @contextmanager
    def on_disk(self) -> Iterator[Path]:
        """The model's file, absolute; a temporary one for as long as the block lasts where it has none."""
        if self.path is not None:
            yield self.path.absolute()
            return
        with tempfile.TemporaryDirectory(prefix="onnxsmith-") as folder:
            yield self.save(Path(folder) / "model.onnx")

    def forbid_overwrite(self, path: Path) -> None:
        """Refuses a destination that would destroy this model.

        Raises:
            OutputError: It is the model's own file, one of its external files, or a folder.
        """
        if path.is_dir():
            raise OutputError(f"{path}: is a folder; name a file in it.")
        if self.path is None:
            return
        sources = [file.resolve() for file in (self.path, *self.external_files)]
        for target in (path, path.with_name(f"{path.name}.data")):
            if target.resolve() in sources:
                raise OutputError(
                    f"{target}: is the input itself, and the input is never overwritten.", "Name another file."
                )

    def _embedded_bytes(self) -> int:
        return sum(
            value.const_value.nbytes
            for _, graph in self.graphs()
            for value in graph.initializers.values()
            if value.const_value is not None
        )


def _walk_graphs(graph: ir.Graph, place: str) -> Iterator[tuple[str, ir.Graph]]:
    yield place, graph
    for index, node in enumerate(graph):
        for attribute in node.attributes.values():
            if attribute.is_ref():
                continue
            inside = f"{place}/{node.name or f'{node.op_type}_{index}'}/{attribute.name}".lstrip("/")
            if attribute.type == ir.AttributeType.GRAPH:
                yield from _walk_graphs(attribute.as_graph(), inside)
            elif attribute.type == ir.AttributeType.GRAPHS:
                for subgraph in attribute.as_graphs():
                    yield from _walk_graphs(subgraph, inside)


def _parse(path: Path) -> onnx.ModelProto:
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise ModelFileError(f"{path}: is a folder, not an ONNX file.")
        if size == 0:
            raise ModelFileError(f"{path}: is empty.", "The export or the download failed; make it again.")
        if size > PROTOBUF_LIMIT:
            raise ModelFileError(
                f"{path}: has {size:,} bytes; one ONNX file can have 2 GB at most.",
                "A model this large keeps its weights as external data; export it again that way.",
            )
        data = path.read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}.") from None
    try:
        proto = onnx.ModelProto.FromString(data)
    except google.protobuf.message.DecodeError:
        raise ModelFileError(
            f"{path}: is not an ONNX model, or it is cut off.", _looks_like(data) or "Check that it was copied whole."
        ) from None
    if not proto.HasField("graph"):
        raise ModelFileError(f"{path}: is not an ONNX model: there is no graph in it.", _looks_like(data))
    return proto


def _looks_like(data: bytes) -> str | None:
    kinds = {
        b"\x89PNG": "a PNG image",
        b"\xff\xd8\xff": "a JPEG image",
        b"PK\x03\x04": "a zip archive (a PyTorch checkpoint, perhaps)",
        b"\x80\x04": "a pickle",
        b"\x80\x05": "a pickle",
        b"version https://git-lfs": "a Git LFS pointer: run `git lfs pull`",
        b"<": "HTML or XML (a failed download, perhaps)",
    }
    return next((f"It looks like {kind}." for start, kind in kinds.items() if data.startswith(start)), None)


def _value_infos(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    yield from graph.input
    yield from graph.output
    yield from graph.value_info


def _take_map_types(proto: onnx.ModelProto) -> dict[str, bytes]:
    """Takes the map types out of a model, since onnx-ir has none; `to_proto` puts them back."""
    taken = {}
    for info in _value_infos(proto.graph):
        inner = info.type
        while inner.HasField("sequence_type") or inner.HasField("optional_type"):
            inner = (inner.sequence_type if inner.HasField("sequence_type") else inner.optional_type).elem_type
        if inner.HasField("map_type"):
            taken[info.name] = info.type.SerializeToString()
            info.ClearField("type")
    return taken


def _root_cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().split("\n", maxsplit=1)[0] or type(error).__name__
