"""The table of passes: built-in ones by name, each loaded when it is asked for, and those of other packages."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import TypeAdapter, ValidationError

from onnxsmith.errors import PassError
from onnxsmith.graph_optimizer.passes.base import Pass
from onnxsmith.records import did_you_mean

GROUP = "onnxsmith.passes"
"""The entry point group of passes in other packages."""

_HERE = "onnxsmith.graph_optimizer.passes"

_ADAPTERS = "onnxsmith.graph_optimizer.adapters"

BUILT_IN: dict[str, str] = {
    # What the caller asks for
    "specialize-shapes": f"{_HERE}.specialize_shapes:SpecializeShapes",
    "convert-opset": f"{_HERE}.convert_opset:ConvertOpset",
    # Structure
    "inline-functions": f"{_HERE}.inline_functions:InlineFunctions",
    "decide-branches": f"{_HERE}.branches:DecideBranches",
    "fold-control-flow": f"{_HERE}.control_flow:FoldControlFlow",
    "eliminate-dead-code": f"{_HERE}.dead_code:EliminateDeadCode",
    "eliminate-duplicates": f"{_HERE}.duplicates:EliminateDuplicates",
    # What can be computed beforehand
    "fold-constants": f"{_HERE}.fold_constants:FoldConstants",
    "evaluate-shapes": f"{_HERE}.evaluate_shapes:EvaluateShapes",
    # Algebra
    "eliminate-noops": f"{_HERE}.noops:EliminateNoops",
    "simplify-casts": f"{_HERE}.casts:SimplifyCasts",
    "simplify-transposes": f"{_HERE}.transposes:SimplifyTransposes",
    "simplify-reshapes": f"{_HERE}.reshapes:SimplifyReshapes",
    "simplify-slices": f"{_HERE}.slices:SimplifySlices",
    "simplify-concats": f"{_HERE}.concats:SimplifyConcats",
    "fuse-pads": f"{_HERE}.pads:FusePads",
    "simplify-qdq": f"{_HERE}.qdq:SimplifyQdq",
    # Folding into weights
    "fold-batch-norm": f"{_HERE}.batch_norm:FoldBatchNorm",
    "fold-affine": f"{_HERE}.affine:FoldAffine",
    "fold-pad": f"{_HERE}.pad_into_conv:FoldPad",
    "fuse-matmul-add": f"{_HERE}.matmul_add:FuseMatmulAdd",
    # Recognition
    "recognize-activations": f"{_HERE}.activations:RecognizeActivations",
    "recognize-gelu": f"{_HERE}.gelu:RecognizeGelu",
    "recognize-layer-norm": f"{_HERE}.layer_norm:RecognizeLayerNorm",
    "recognize-rms-norm": f"{_HERE}.rms_norm:RecognizeRmsNorm",
    "recognize-rotary": f"{_HERE}.rotary:RecognizeRotary",
    "recognize-attention": f"{_HERE}.attention:RecognizeAttention",
    # For the runtime
    "annotate-shapes": f"{_HERE}.annotate_shapes:AnnotateShapes",
    # Outside optimisers
    "onnxsim": f"{_ADAPTERS}.onnxsim:Onnxsim",
    "onnxslim": f"{_ADAPTERS}.onnxslim:Onnxslim",
    "onnxoptimizer": f"{_ADAPTERS}.onnxoptimizer:Onnxoptimizer",
    "onnxscript": f"{_ADAPTERS}.onnxscript:Onnxscript",
    "ort-level": f"{_ADAPTERS}.ort_level:OrtLevel",
    "ort-transformers": f"{_ADAPTERS}.ort_transformers:OrtTransformers",
}


@functools.cache
def plugins() -> dict[str, EntryPoint]:
    """The entry points of other packages by the pass's name.

    Raises:
        PassError: Two passes have one name.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        if point.name in BUILT_IN or point.name in found:
            raise PassError(
                f"two passes are called '{point.name}'; one is in {point.value}.",
                "Rename the entry point, or uninstall one of the two packages.",
            )
        found[point.name] = point
    return found


def pass_names() -> list[str]:
    """The names of all passes: ours, then those of other packages."""
    return [*BUILT_IN, *plugins()]


def load_pass(name: str) -> type[Pass]:
    """The class of a pass.

    Raises:
        PassError: There is none of that name, or it cannot be loaded.
    """
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        loaded: type[Pass] = getattr(import_module(module), attribute)
        assert issubclass(loaded, Pass) and loaded.name == name
        return loaded
    point = plugins().get(name)
    if point is None:
        raise PassError(
            f"there is no pass '{name}'.", did_you_mean(name, pass_names()) or "`onnxsmith passes` lists them."
        )
    try:
        found = point.load()
    except Exception as error:
        raise PassError(f"the pass '{name}' ({point.value}) cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Pass)):
        raise PassError(f"the pass '{name}' ({point.value}) is not a subclass of onnxsmith.Pass.")
    if getattr(found, "name", None) != name:
        raise PassError(f"the pass '{name}' ({point.value}) calls itself '{getattr(found, 'name', None)}'.")
    return found


def make_pass(name: str, options: Mapping[str, Any] | None = None) -> Pass:
    """A pass with its options, checked against the types of its fields.

    Raises:
        PassError: There is no such pass, no such option, or its value does not fit.
    """
    kind = load_pass(name)
    known = [field.name for field in fields(kind)]
    for key in options or {}:
        if key not in known:
            takes = f"It takes: {', '.join(known)}." if known else "It takes no options."
            raise PassError(f"the pass '{name}' has no option '{key}'.", did_you_mean(key, known) or takes)
    if not options and all(_has_default(field) for field in fields(kind)):
        return kind()  # nothing to check, and a TypeAdapter takes its time
    try:
        made: Pass = TypeAdapter(kind).validate_python(dict(options or {}))
    except ValidationError as error:
        first = error.errors()[0]
        place = f"option '{'.'.join(map(str, first['loc']))}': " if first["loc"] else ""
        raise PassError(f"the pass '{name}': {place}{first['msg'].removeprefix('Value error, ')}.") from None
    return made


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def parse_pass(text: str) -> Pass:
    """Reads `name` or `name{option=value,option=value}`.

    Raises:
        PassError: It is not of that form, or `make_pass` refuses it.
    """
    name, brace, rest = text.strip().partition("{")
    if not brace:
        return make_pass(name)
    if not rest.endswith("}"):
        raise PassError(f"'{text}': write options as {name}{{option=value}}.")
    options: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in rest[:-1].split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise PassError(f"'{text}': '{part}' is not option=value.")
        options[key.strip().replace("-", "_")] = value.strip()
    return make_pass(name, options)
