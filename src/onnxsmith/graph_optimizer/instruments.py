"""What is done around each pass: saving the model, checking it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from onnxsmith.errors import OnnxsmithError, OutputError
from onnxsmith.graph_optimizer.passes.base import Pass, PassResult
from onnxsmith.graph_optimizer.structure import find_fault
from onnxsmith.model import Model


class PassFault(Exception):  # noqa: N818 - an answer, not an error
    """A pass broke the model; it is rolled back."""


class DumpError(OutputError):
    """The model after a pass cannot be saved, which is no fault of the pass."""


class Instrument:
    """Hooks around each pass of a pipeline; each does nothing here."""

    def should_run(self, number: int, step: Pass) -> bool:
        """Whether a pass runs.

        Args:
            number: Which run of a pass it is, from 0, over all rounds.
            step: The pass.
        """
        return True

    def after(self, number: int, step: Pass, result: PassResult) -> None:
        """Called after a pass that changed the model.

        Raises:
            PassFault: The model is broken.
        """


class StructureCheck(Instrument):
    """Holds the graph's structure after each pass."""

    def after(self, number: int, step: Pass, result: PassResult) -> None:
        """Walks the graph once."""
        fault = find_fault(result.model.ir)
        if fault is not None:
            raise PassFault(fault)


class Dump(Instrument):
    """Saves the model after each pass that changed it: `03-fold-constants.onnx`.

    Args:
        folder: Where to; it is made if it is not there.
        original: The model that the passes began with, whose file is never overwritten.
    """

    def __init__(self, folder: Path, original: Model) -> None:
        self.folder = folder
        self.original = original

    def after(self, number: int, step: Pass, result: PassResult) -> None:
        """Saves it.

        Raises:
            DumpError: It cannot be saved.
        """
        file = self.folder / f"{number:02d}-{step.name}.onnx"
        try:
            self.original.forbid_overwrite(file)
            result.model.save(file)
        except OutputError as error:
            raise DumpError(error.message, error.hint) from None


class NumbersCheck(Instrument):
    """Holds the outputs after each pass.

    Args:
        differs: Gives what is wrong with a model's outputs, or None.
    """

    def __init__(self, differs: Callable[[Model], str | None]) -> None:
        self.differs = differs

    def after(self, number: int, step: Pass, result: PassResult) -> None:
        """Runs the model."""
        reason = self.differs(result.model)
        if reason is not None:
            raise PassFault(reason)


class Only(Instrument):
    """Lets only the first runs of passes happen, and some never: what bisection and rolling back need.

    Args:
        limit: How many runs of passes happen; None is all.
        skip: Passes that never run, by name.
    """

    def __init__(self, limit: int | None = None, skip: frozenset[str] = frozenset()) -> None:
        self.limit = limit
        self.skip = skip

    def should_run(self, number: int, step: Pass) -> bool:
        """Whether it is among the first and is not to be skipped."""
        return step.name not in self.skip and (self.limit is None or number < self.limit)


def fault_of(error: Exception) -> str:
    """An exception that a pass raised, in words."""
    if isinstance(error, PassFault):
        return str(error)
    text = error.message if isinstance(error, OnnxsmithError) else f"{type(error).__name__}: {error}"
    return text.split("\n", maxsplit=1)[0]
