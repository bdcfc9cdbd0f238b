"""Whether a model can take another's place: its inputs and outputs."""

from __future__ import annotations

from onnxsmith.model import Dim, Model, TensorSpec


def compare_interfaces(before: Model, after: Model) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Compares inputs and outputs: names, order, types, dimensions.

    Returns:
        What differs, in words; and the outputs whose shape is only better known than before.
    """
    differences: list[str] = []
    refined: list[str] = []
    if _overridable(before) != _overridable(after):
        differences.append(
            f"initializers that a caller can override: {_list(_overridable(before))} before, "
            f"{_list(_overridable(after))} after"
        )
    for kind, old, new in (("input", before.inputs, after.inputs), ("output", before.outputs, after.outputs)):
        names, new_names = [spec.name for spec in old], [spec.name for spec in new]
        if names != new_names:
            differences.append(f"{kind}s: {_list(names)} before, {_list(new_names)} after")
            continue
        for spec, other in zip(old, new, strict=True):
            if spec != other:
                change = f"{kind} '{spec.name}': {spec} before, {other} after"
                (refined if kind == "output" and _refines(spec, other) else differences).append(change)
    return tuple(differences), tuple(refined)


def _overridable(model: Model) -> list[str]:
    return [value.name or "" for value in model.ir.graph.inputs if value.is_initializer()]


def _list(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _refines(old: TensorSpec, new: TensorSpec) -> bool:
    """Whether `new` says all that `old` says, and more."""
    if (old.kind, old.dtype) != (new.kind, new.dtype) or new.shape is None:
        return False
    return old.shape is None or (len(old.shape) == len(new.shape) and all(map(_dim_refines, old.shape, new.shape)))


def _dim_refines(old: Dim, new: Dim) -> bool:
    return old is None or old == new or (isinstance(old, str) and isinstance(new, int))
