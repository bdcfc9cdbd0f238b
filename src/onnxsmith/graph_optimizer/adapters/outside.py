"""What all outside optimisers have in common: a child process under limits, and a look at what it brings back."""

from __future__ import annotations

import importlib
import shutil
import tempfile
import weakref
from abc import ABC
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

import google.protobuf.message
import onnx
import onnx_ir as ir
from pydantic import Field

from onnxsmith.child import OUT_OF_MEMORY_SIGNS
from onnxsmith.config import LimitsConfig
from onnxsmith.errors import InvalidModelError, MissingExtraError, ModelError, OnnxsmithError, RuntimeFailure
from onnxsmith.graph_optimizer.adapters.changes import Changes
from onnxsmith.graph_optimizer.adapters.restoring import find_loss, put_back
from onnxsmith.graph_optimizer.editor import PROVENANCE, label
from onnxsmith.graph_optimizer.instruments import PassFault
from onnxsmith.graph_optimizer.operators import onnx_schema
from onnxsmith.graph_optimizer.passes.base import Note, Pass, PassResult
from onnxsmith.model import Model, check_native
from onnxsmith.model.weights import tensor_slots
from onnxsmith.process import run_supervised
from onnxsmith.records import Progress, no_progress

Seconds = Annotated[float, Field(gt=0)]
Mebibytes = Annotated[int, Field(ge=0)]
Ratio = Annotated[float, Field(gt=0)]

_SLACK = 1 << 20
"""Bytes that a file may grow by whatever its size: names and shapes that a tool writes down."""

_FOLDER = "onnxsmith.folder"


@dataclass(frozen=True)
class OutsidePass(Pass, ABC):
    """An optimiser that somebody else wrote.

    It works on a copy, in a child process. What it drops of the model's own (metadata, doc strings, versions) is put
    back; where it breaks anything else, the pass fails, and the model that it was given is as it was.

    Attributes:
        tool: `module:name` of the function that runs it, in the child. It is called with the model's file, the file to
            write, and the options that a subclass adds, as keywords.
        timeout_s: Seconds until it is stopped.
        memory_mb: MiB of private memory that it may take; 0 is as much as the machine has.
        max_growth: How many times as large the file may get; a megabyte more is always allowed.
    """

    in_place: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    tool: ClassVar[str]

    timeout_s: Seconds = 600.0
    memory_mb: Mebibytes = 0
    max_growth: Ratio = 1.5

    def run(self, model: Model) -> PassResult:
        """Runs the tool.

        Raises:
            PassFault: What it made cannot take the model's place.
            MissingExtraError: It is not installed.
            RuntimeFailure: It failed, crashed, or ran past a limit.
        """
        limits = LimitsConfig(timeout_s=self.timeout_s, memory_mb=self.memory_mb)
        result = self._result(model, limits)
        put_back(model, result)
        loss = find_loss(model, result)
        if loss is not None:
            raise PassFault(loss)
        try:
            check_native(result, limits)
        except InvalidModelError as error:
            reason = error.message.removeprefix(f"{result.name}: ").removeprefix("not a valid model: ")
            raise PassFault(f"what it wrote is invalid: {reason}") from error
        changes = Changes(model.ir, result.ir)
        if not changes.count:
            return PassResult(model, 0)
        for node in changes.made:
            node.metadata_props[PROVENANCE] = self.name
        return PassResult(result, changes.count, self._foreign(result, changes.made))

    def _result(self, model: Model, limits: LimitsConfig) -> Model:
        """Lets the tool work on a copy of the model, and loads what it wrote."""
        own = {field.name for field in fields(OutsidePass)}
        options = {key: value for key, value in self._options() if key not in own}
        folder = _Folder()
        target = folder.path / "model.onnx"
        with Model(model.ir).on_disk() as source:
            try:
                run_supervised(
                    f"{__name__}:run_tool", self.tool, source, target, options, limits=limits, what=self.name
                )
            except MissingExtraError as error:
                raise MissingExtraError(str(error).replace("\n", " ")) from error
            except RuntimeFailure as error:
                error.message = error.message.replace(str(source), "the model")
                raise
            before, after = _size(source.parent), _size(folder.path)
        if not target.is_file():
            raise PassFault("it wrote no model")
        if after > before * self.max_growth + _SLACK:
            raise PassFault(f"it multiplied the file: {after:,} bytes, and {before:,} before")
        try:
            result = Model.load(target)
        except ModelError as error:
            reason = error.message.replace(str(target), "its result")
            raise PassFault(f"what it wrote cannot be read: {reason}") from error
        for slot in tensor_slots(result.ir):
            if isinstance(slot.tensor, ir.ExternalTensor):
                slot.tensor.meta[_FOLDER] = folder
        return Model(result.ir)

    def _foreign(self, model: Model, made: list[ir.Node]) -> tuple[Note, ...]:
        """A note for each operator that it brought in and ONNX does not have."""
        notes: dict[ir.OperatorIdentifier, Note] = {}
        for node in made:
            if onnx_schema(model, node) is None and node.op_identifier() not in model.ir.functions:
                reason = "is not an operator of ONNX: only a runtime that has it runs the model"
                notes.setdefault(
                    node.op_identifier(),
                    Note(name=self.name, node=label(node), op_type=node.op_type, reason=reason),
                )
        return tuple(notes.values())


class _Folder:
    """A folder that is there for as long as something refers to this."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="onnxsmith-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def run_tool(
    tool: str, source: Path, target: Path, options: dict[str, Any], *, progress: Progress = no_progress
) -> None:
    """The child's side: calls a tool, whose exceptions become ours.

    Args:
        tool: `module:name` of the function.
        source: The model's file.
        target: The file to write.
        options: Keywords for the function.
        progress: Not told of anything.

    Raises:
        MissingExtraError: A package is missing.
        RuntimeFailure: It raised something.
    """
    module, _, name = tool.partition(":")
    try:
        getattr(importlib.import_module(module), name)(source, target, **options)
    except (OnnxsmithError, MemoryError):
        raise
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{error.name}, which it needs, is not installed.", f"Install it with: pip install {error.name}"
        ) from error
    except Exception as error:
        text = str(error).strip()
        if any(sign in text for sign in OUT_OF_MEMORY_SIGNS):
            raise MemoryError(text) from error
        first = text.split("\n", maxsplit=1)[0]
        raise RuntimeFailure(f"it raised {type(error).__name__}{f': {first}' if first else ''}") from error


def write(message: onnx.ModelProto, target: Path) -> None:
    """Writes a tool's result; its weights go beside it where they do not fit in one file."""
    try:
        data = message.SerializeToString()
    except (ValueError, google.protobuf.message.EncodeError):
        onnx.save_model(message, target, save_as_external_data=True, location=f"{target.name}.data")
    else:
        target.write_bytes(data)
