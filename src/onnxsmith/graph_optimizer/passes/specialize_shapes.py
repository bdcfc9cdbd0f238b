"""Dynamic sizes that the caller knows, or wants to call otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.errors import TensorError
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.base import Pass, PassResult
from onnxsmith.model import Model, resolve_dims
from onnxsmith.model.dims import dim_key

_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class SpecializeShapes(Pass):
    """Fixes or renames dynamic dimensions of the inputs, and of the outputs that are called the same.

    Attributes:
        dims: A size or a new name by the dimension's name, by `input.axis` where it has none, or by `batch`.
    """

    name: ClassVar[str] = "specialize-shapes"
    dims: Mapping[str, int | str] = field(default_factory=dict)

    def run(self, model: Model) -> PassResult:
        """Rewrites the declared shapes.

        Raises:
            TensorError: A dimension that the model does not have, a size below 1, or an empty name.
        """
        editor = Editor(model, self.name)
        named, placed = _asked(model, self.dims)
        if not named and not placed:
            return PassResult(model, 0)
        for value in editor.model.graph.inputs:
            for axis in _dynamic_axes(value):
                new = placed.get(f"{value.name}.{axis}")
                if new is not None:
                    _set(value, axis, new)
                    editor.count()
        for value in _declared(model):
            for axis in _dynamic_axes(value):
                new = named.get(_dim_name(value, axis))
                if new is not None:
                    _set(value, axis, new)
                    editor.count()
        editor.facts.forget()
        _drop_contradictions(model, editor)
        return PassResult(model, editor.changes)


def _asked(model: Model, dims: Mapping[str, int | str]) -> tuple[dict[str, int | str], dict[str, int | str]]:
    """What dimensions become: by their names, and by `input.axis` for those that have none."""
    asked = {name: int(new) if isinstance(new, str) and new.isdecimal() else new for name, new in dims.items()}
    for name, new in asked.items():
        if new == "":
            raise TensorError(f"dimension '{name}' is asked to have an empty name.", "Give a size or a name.")
    sizes = {name: new if isinstance(new, int) else 1 for name, new in asked.items()}
    resolved = resolve_dims(model.inputs, sizes)
    places = {
        dim_key(spec, axis, dim) for spec in model.inputs for axis, dim in spec.dynamic_dims if not isinstance(dim, str)
    }
    new_dims = {
        key: new for name, new in asked.items() for key in ([name] if name in resolved.sizes else resolved.batch)
    }
    for key, size in resolved.sizes.items():
        parts = _NAME.findall(key)
        # A name such as `past_length + 1` follows from what is fixed.
        if (
            key not in new_dims
            and key not in resolved.defaulted
            and parts
            and all(isinstance(new_dims.get(part), int) for part in parts)
        ):
            new_dims[key] = size
    return (
        {key: new for key, new in new_dims.items() if key not in places},
        {key: new for key, new in new_dims.items() if key in places},
    )


def _declared(model: Model) -> Iterator[ir.Value]:
    """The values with a declared shape: inputs, outputs, and what lies between."""
    yield from model.ir.graph.inputs
    for _, graph in model.graphs():
        for node in graph:
            yield from node.outputs


def _dynamic_axes(value: ir.Value) -> list[int]:
    return [axis for axis, dim in enumerate(value.shape or ()) if not isinstance(dim, int)]


def _dim_name(value: ir.Value, axis: int) -> str:
    dim = value.shape[axis] if value.shape is not None else None
    return (dim.value if isinstance(dim, ir.SymbolicDim) else None) or ""


def _set(value: ir.Value, axis: int, new: int | str) -> None:
    assert value.shape is not None
    shape = value.shape.copy()
    shape[axis] = new
    value.shape = shape


def _drop_contradictions(model: Model, editor: Editor) -> None:
    """Takes the declared shape off values between whose sizes are now others."""
    for _, graph in model.graphs():
        for node in graph:
            for value in node.outputs:
                if value.shape is None or value.is_graph_output():
                    continue
                shape = editor.shape(value)
                if shape is not None and (
                    len(shape) != len(value.shape)
                    or any(
                        isinstance(old, int) and isinstance(new, int) and old != new
                        for old, new in zip(value.shape, shape, strict=True)
                    )
                ):
                    value.shape = None
