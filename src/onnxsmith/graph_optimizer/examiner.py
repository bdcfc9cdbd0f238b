"""Runs the passes that a configuration asks for over a model, and says what is wrong with what they made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from onnxsmith.config import Config
from onnxsmith.errors import InvalidModelError
from onnxsmith.graph_optimizer.agreement import Verification
from onnxsmith.graph_optimizer.blame import first_fault
from onnxsmith.graph_optimizer.instruments import Dump, Instrument, NumbersCheck
from onnxsmith.graph_optimizer.interface import compare_interfaces
from onnxsmith.graph_optimizer.pass_pipeline import PassPipeline, PipelineResult, Rollback
from onnxsmith.graph_optimizer.passes.table import make_pass
from onnxsmith.graph_optimizer.pipelines import plan
from onnxsmith.model import Model, check_native
from onnxsmith.records import Progress, no_progress

if TYPE_CHECKING:
    from onnxsmith.graph_optimizer.numeric_check import NumericCheck

NOT_VERIFIED = "verification is off"


@dataclass(frozen=True)
class Candidate:
    """A model that passes made, and what the checks say of it.

    Attributes:
        result: The passes' result.
        refined: Outputs whose shape is better known.
        verification: The comparison of the outputs.
        fault: What is wrong with it, or None.
    """

    result: PipelineResult
    refined: tuple[str, ...]
    verification: Verification
    fault: str | None


class Examiner:
    """Passes over one model, and the checks of what they make.

    Args:
        config: `optimization`, `inference`, `limits`, `dims` and `seed` are used.
        model: The model; it stays as it is.
        feeds: Inputs for the comparison by name; what is not given is sampled.
        verify: Whether outputs are compared.
        dump: A folder for the model after each pass.
        progress: Told of the passes.

    Attributes:
        name: The pipeline's name.
        stages: Its stages.

    Raises:
        InvalidModelError: The model's opset is newer than any that is known here.
    """

    def __init__(
        self,
        config: Config,
        model: Model,
        feeds: Mapping[str, Any],
        *,
        verify: bool = True,
        dump: Path | None = None,
        progress: Progress = no_progress,
    ) -> None:
        newest = onnx.defs.onnx_opset_version()
        if model.opset > newest:
            raise InvalidModelError(
                f"{model.name}: has opset {model.opset}, and the newest that the installed onnx knows is {newest}.",
                "What its operators mean cannot be known here; upgrade onnx.",
            )
        options = config.optimization
        self._config = config
        self._model = model
        self._verify = verify
        self._progress = progress
        self.name, self.stages = plan(options)
        self._feeds = feeds
        self._asked = model
        if options.dims:  # the interface that the result must have is the original's at these sizes
            self._asked = make_pass("specialize-shapes", {"dims": options.dims}).run(self.fresh()).model
        instruments: list[Instrument] = [Dump(dump, model)] if dump is not None else []
        if verify and options.check == "each":
            instruments.append(NumbersCheck(self.numbers.differs))
        self._pipeline = PassPipeline(self.stages, instruments)

    @cached_property
    def numbers(self) -> NumericCheck:
        """The comparison of outputs."""
        from onnxsmith.graph_optimizer.numeric_check import NumericCheck

        sizes = {key: size for key, size in self._config.optimization.dims.items() if isinstance(size, int)}
        return NumericCheck(self._model, self._config, self._feeds, sizes)

    def fresh(self) -> Model:
        """The model, for passes to work on."""
        return Model(self._model.ir.clone())

    def run(self, skip: frozenset[str] = frozenset(), limit: int | None = None) -> PipelineResult:
        """Runs the passes.

        Args:
            skip: Passes that do not run.
            limit: How many runs of passes there are at most.
        """
        return self._pipeline.run(self.fresh, skip=skip, limit=limit, progress=self._progress)

    def examine(self, result: PipelineResult) -> Candidate:
        """Holds a result's interface, validity and outputs against the original's."""
        differences, refined = compare_interfaces(self._asked, result.model)
        if differences:
            difference = f"the interface differs: {differences[0]}"
            return Candidate(result, (), Verification(agree=None, reason=difference), difference)
        if not self._verify:
            return Candidate(result, refined, Verification(agree=None, reason=NOT_VERIFIED), None)
        self._progress("comparing the outputs", 0, 0)
        try:
            check_native(result.model, self._config.limits)
        except InvalidModelError as error:
            return Candidate(result, refined, Verification(agree=None, reason=error.message), error.message)
        verification = self.numbers.verify(result.model)
        fault = None
        if verification.agree is False:
            fault = f"the outputs differ {verification.reason}" if verification.checks else verification.reason
        return Candidate(result, refined, verification, fault)

    def blame(self, result: PipelineResult, skip: frozenset[str] = frozenset()) -> Rollback:
        """The first run of a pass after which something is wrong, where something is in the end."""
        return first_fault(result, partial(self._fault_at, skip))

    def _fault_at(self, skip: frozenset[str], limit: int) -> str | None:
        return self.examine(self.run(skip, limit)).fault
