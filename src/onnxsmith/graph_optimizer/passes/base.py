"""What a pass is: a frozen dataclass whose fields are its options, and one method, model in, result out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from onnxsmith.model import Model
from onnxsmith.records import Record


class Note(Record):
    """Why a rule that matched did not apply.

    Attributes:
        name: The pass.
        node: The node's name, or its operator and its first output where it has none.
        op_type: Its operator.
        reason: Why not.
    """

    name: str
    node: str
    op_type: str
    reason: str


@dataclass(frozen=True)
class PassResult:
    """What a pass did.

    Attributes:
        model: The model; the one that was given where the pass works in place.
        changes: How many times it changed something; 0 leaves the model as it was.
        notes: The rules that matched and did not apply.
    """

    model: Model
    changes: int
    notes: tuple[Note, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the model is another one than before."""
        return self.changes > 0


@dataclass(frozen=True)
class Pass(ABC):
    """One idea of how to make a model better.

    A subclass is a frozen dataclass with a `name`; its fields are its options on the command line, in `config.yaml` and
    in the schema. A pass may change the model that it is given; the pipeline gave it one that nobody else holds.

    Attributes:
        name: Its name, unique among all passes: `fold-constants`.
        in_place: Whether it changes the model that it is given; False where it makes another and leaves that one be.
        exact: Whether every bit of every output stays; False for one that changes the order of float arithmetic.
    """

    name: ClassVar[str]
    in_place: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    @abstractmethod
    def run(self, model: Model) -> PassResult:
        """Applies the pass.

        Args:
            model: A valid model, which may be changed in place.
        """

    @classmethod
    def summary(cls) -> str:
        """The first line of the class's docstring."""
        return (cls.__doc__ or "").strip().split("\n", maxsplit=1)[0]

    def options(self) -> dict[str, Any]:
        """The options by name."""
        return dict(self._options())

    def _options(self) -> Iterator[tuple[str, Any]]:
        for field in fields(self):
            yield field.name, getattr(self, field.name)
