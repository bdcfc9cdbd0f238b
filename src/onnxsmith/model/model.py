"""The model type."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import google.protobuf.message
import onnx
import onnx_ir as ir

from onnxsmith.errors import ExternalDataError, InternalError, InvalidModelError, OutputError
from onnxsmith.model.carried import attach, carried_types, pack, unpack
from onnxsmith.model.external_data import check_tensor_data
from onnxsmith.model.model_file import PROTOBUF_LIMIT, parse
from onnxsmith.model.node_names import with_unique_node_names
from onnxsmith.model.saving import forbid_same_file, staged_folder
from onnxsmith.model.serializing import Replace, to_message
from onnxsmith.model.specs import TensorSpec, spec_of
from onnxsmith.model.weights import (
    Holdings,
    LeftOut,
    Streamed,
    bind_external,
    bind_left,
    forget_metadata,
    holdings,
    move_out,
)
from onnxsmith.model.wire import put_back
from onnxsmith.records import Progress, no_progress

_EMBED_LIMIT = 1 << 30
"""Weights above this many bytes are saved as external data."""

_CHUNK = 1 << 22


class Model:
    """An ONNX model over onnx-ir.

    Weights stay in their files until something reads them, those in the model's own file too. Do not change `ir` in
    place where others hold the model: make a new `Model`.

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
    ) -> None:
        self.ir = model
        self.path = path
        self.external_files = external_files

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Loads a model, its weights memory-mapped. Validity is checked by `analyse_native`.

        Args:
            path: An ONNX file.

        Raises:
            ModelFileError: The file is missing, empty, unreadable, over 2 GB, or not ONNX.
            ExternalDataError: External data is missing, too short, or outside the model's folder.
            InvalidModelError: The graph in the file cannot be read, or a tensor's data is not of its size.
        """
        path = Path(path)
        proto, left = parse(path)
        external = check_tensor_data(proto, path, left or ())
        model = cls.from_proto(proto, path=path, external_files=external)
        if left is not None:
            bind_left(model.ir, left)
        return model

    @classmethod
    def from_proto(
        cls, proto: onnx.ModelProto, *, path: Path | None = None, external_files: tuple[Path, ...] = ()
    ) -> Model:
        """Wraps a protobuf model, which is used up: do not use it afterwards.

        Raises:
            InvalidModelError: The graph in it cannot be read.
        """
        folder = path.absolute().parent if path is not None else None
        try:
            carried = pack(proto, folder)
            model = ir.from_proto(proto)
        except (ir.serde.SerdeError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidModelError(f"{path or 'the model'}: the graph cannot be read: {_root_cause(error)}") from error
        forget_metadata(model)
        attach(model, carried)
        if folder is not None:
            bind_external(model, folder, external_files)
        return cls(model, path=path, external_files=external_files)

    def to_proto(self) -> onnx.ModelProto:
        """The model as protobuf; external tensors stay references.

        Raises:
            InvalidModelError: It cannot be serialised.
        """
        return self._message(None)

    def _message(self, replace: Replace | None) -> onnx.ModelProto:
        try:
            message = ir.to_proto(self.ir) if replace is None else to_message(self.ir, replace)
        except (ir.serde.SerdeError, google.protobuf.message.Error) as error:
            raise InvalidModelError(f"{self.name}: cannot be serialised: {_root_cause(error)}") from error
        unpack(message, self.ir)
        return message

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
        stored = carried_types(self.ir).get(value.name or "")
        return spec_of(value, onnx.TypeProto.FromString(stored) if stored is not None else None)

    @property
    def opset(self) -> int:
        """The version of the default operator domain, or 0 where it is not imported."""
        imports = self.ir.opset_imports
        return imports.get("", imports.get("ai.onnx", 0))

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
        if self.path is not None:
            return sum(file.stat().st_size for file in (self.path, *self.external_files))
        left = LeftOut()
        return self._message(left).ByteSize() + sum(tensor.nbytes for tensor in left.tensors)

    def digest(self, progress: Progress = no_progress) -> str:
        """SHA-256 over the model's file and then each external file, in the order of their names.

        A model without a file is hashed as it serialises, its weights after the rest.
        """
        digest = hashlib.sha256()
        done = 0
        for chunk in self._contents():
            digest.update(chunk)
            done += len(chunk)
            progress("hashing", done, self.size_bytes)
        return digest.hexdigest()

    def _contents(self) -> Iterator[bytes]:
        if self.path is None:
            left = LeftOut()
            yield self._message(left).SerializeToString(deterministic=True)
            for tensor in left.tensors:
                yield tensor.tobytes()
            return
        for file in (self.path, *self.external_files):
            with file.open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    yield chunk

    def frame(self) -> onnx.ModelProto:
        """The model as protobuf, its large tensors references to nothing: what a check of the graph needs."""
        return self._message(LeftOut())

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
            ExternalDataError: A file with its weights is no longer there.
            ModelFileError: The file it was loaded from has been written to since.
            InvalidModelError: The weights do not fit in one file.
        """
        path = Path(path)
        self.forbid_overwrite(path)
        held = holdings(self.ir)
        self._require_sources(held)
        external = sum(tensor.nbytes for tensor in held.external)
        if external_data is None:
            external_data = external > 0 or held.embedded > _EMBED_LIMIT
        if not external_data and held.embedded + external > PROTOBUF_LIMIT:
            raise _too_large(path)
        with staged_folder(path.absolute().parent) as staging:
            self._write(
                staging / path.name,
                Streamed(move_out(self.ir, staging, f"{path.name}.data") if external_data else None),
            )
        return path

    def _write(self, path: Path, streamed: Streamed) -> None:
        try:
            message = self._message(streamed).SerializeToString()
        except (ValueError, google.protobuf.message.EncodeError):
            raise _too_large(path) from None
        if not streamed.tensors:
            path.write_bytes(message)
            return
        pieces, size = put_back(message, streamed.marks, [tensor.nbytes for tensor in streamed.tensors])
        if size > PROTOBUF_LIMIT:
            raise _too_large(path)
        with path.open("wb") as file:
            for piece in pieces:
                if isinstance(piece, int):
                    tensor: Any = streamed.tensors[piece]
                    tensor.tofile(file)
                else:
                    file.write(piece)
            written = file.tell()
        if written != size:
            raise InternalError(f"{self.name}: its tensors have {written - size:+,} bytes against what they say.")

    def _require_sources(self, held: Holdings) -> None:
        for tensor in held.external:
            if not Path(tensor.path).is_file():
                raise ExternalDataError(
                    f"{self.name}: the weights of '{tensor.name}' were in '{tensor.path}', which is no longer there."
                )
        for file in held.files:
            file.require_unchanged()

    @contextmanager
    def on_disk(self) -> Iterator[Path]:
        """The model's file, absolute; a temporary one for as long as the block lasts where it has none.

        Nodes of the same name, which ONNX allows and ONNX Runtime refuses, get names of their own in a temporary file.
        """
        unique = self._has_unique_node_names()
        if self.path is not None and unique:
            yield self.path.absolute()
            return
        with tempfile.TemporaryDirectory(prefix="onnxsmith-") as folder:
            named = self if unique else Model(with_unique_node_names(self.ir))
            yield named.save(Path(folder) / "model.onnx")

    def _has_unique_node_names(self) -> bool:
        return all(
            len(names) == len(set(names))
            for _, graph in self.graphs()
            for names in ([node.name for node in graph if node.name],)
        )

    def forbid_overwrite(self, path: Path) -> None:
        """Refuses a destination that would destroy this model.

        Raises:
            OutputError: It is the model's own file, one of its external files, or a folder.
        """
        if path.is_dir():
            raise OutputError(f"{path}: is a folder; name a file in it.")
        own = [] if self.path is None else [self.path]
        sources = {*own, *self.external_files, *(Path(tensor.path) for tensor in holdings(self.ir).external)}
        for target in (path, path.with_name(f"{path.name}.data")):
            forbid_same_file(target, sources)


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
                for number, subgraph in enumerate(attribute.as_graphs()):
                    yield from _walk_graphs(subgraph, f"{inside}_{number}")


def _too_large(path: Path) -> InvalidModelError:
    return InvalidModelError(
        f"{path}: the weights are over 2 GB and do not fit in one file.", "Save them as external data."
    )


def _root_cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().split("\n", maxsplit=1)[0] or type(error).__name__
