"""Whether a node means at one opset what it means at another, as far as the operators' schemas tell."""

from __future__ import annotations

import functools
from collections.abc import Container, Sequence

import onnx
import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor

_Schema = onnx.defs.OpSchema


@functools.cache
def schema_of(op_type: str, opset: int) -> _Schema | None:
    """The schema of a standard operator, be it deprecated; None where an opset has none."""
    try:
        return onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None


def version_of(op_type: str, opset: int) -> int | None:
    """The opset in which an operator became what it is at a later one; None where there is none."""
    schema = schema_of(op_type, opset)
    return None if schema is None else schema.since_version


def needless_attributes(editor: Editor, node: ir.Node, opset: int) -> frozenset[str]:
    """The attributes that an opset lacks and that say here what is meant without them."""
    old, new = schema_of(node.op_type, editor.opset), schema_of(node.op_type, opset)
    assert old is not None
    assert new is not None
    lacking = [attribute for name, attribute in node.attributes.items() if name not in new.attributes]
    return frozenset(attribute.name for attribute in lacking if _says_default(attribute, old))


def _says_default(attribute: ir.Attr, schema: _Schema) -> bool:
    declared = schema.attributes.get(attribute.name)
    if declared is None or attribute.is_ref() or declared.default_value.type == onnx.AttributeProto.UNDEFINED:
        return False
    return bool(ir.from_proto(declared.default_value).value == attribute.value)


def misfit(editor: Editor, node: ir.Node, opset: int, *, without: Container[str]) -> str | None:
    """Why a node cannot go to an opset when some attributes are taken from it, or None."""
    old, new = schema_of(node.op_type, editor.opset), schema_of(node.op_type, opset)
    assert old is not None
    assert new is not None
    if new.deprecated:
        return f"opset {opset} has no {node.op_type}"
    for name, attribute in node.attributes.items():
        there = new.attributes.get(name)
        if name in without:
            continue
        if there is None or there.type.name != attribute.type.name:  # type: ignore[attr-defined]  # onnx's stub lacks it
            return f"{node.op_type} at opset {opset} has no such attribute '{name}'"
    for name, declared in old.attributes.items():
        there = new.attributes.get(name)
        if name not in node.attributes and there is not None and _default(declared) != _default(there):
            return f"{node.op_type} at opset {opset} has another default of '{name}'"
    if any(declared.required and name not in node.attributes for name, declared in new.attributes.items()):
        return f"{node.op_type} at opset {opset} needs an attribute that it has not"
    if not new.min_input <= len(node.inputs) <= new.max_input or len(node.outputs) > new.max_output:
        return f"{node.op_type} at opset {opset} takes other inputs or has other outputs"
    return None


def _default(attribute: _Schema.Attribute) -> bytes:
    return attribute.default_value.SerializeToString()


def mistyped(editor: Editor, node: ir.Node, opset: int) -> str | None:
    """Why the types of a node's inputs and outputs do not do at an older opset, or None."""
    schema = schema_of(node.op_type, opset)
    assert schema is not None
    for values, formals in ((node.inputs, schema.inputs), (node.outputs, schema.outputs)):
        for value, formal in zip(values, _for_each(formals, len(values)), strict=False):
            if value is not None and value.name and not _allows(schema, formal.type_str, editor, value):
                return f"{node.op_type} at opset {opset} does not take the type of '{value.name}', or it is not known"
    return None


def _for_each(formals: Sequence[_Schema.FormalParameter], count: int) -> list[_Schema.FormalParameter]:
    """The formal parameter of each value: the last one is for all the rest where it is variadic."""
    listed = list(formals)
    if listed and listed[-1].option == _Schema.FormalParameterOption.Variadic:
        listed += [listed[-1]] * (count - len(listed))
    return listed


def _allows(schema: _Schema, type_name: str, editor: Editor, value: ir.Value) -> bool:
    allowed: Sequence[str] = next(
        (found.allowed_type_strs for found in schema.type_constraints if found.type_param_str == type_name), [type_name]
    )
    if editor.facts.is_tensor(value) is False:
        return not all(text.startswith("tensor(") for text in allowed)
    dtype = editor.dtype(value)
    return dtype is not None and f"tensor({_NAMES.get(dtype, dtype.name.lower())})" in allowed


_NAMES = {ir.DataType.FLOAT: "float", ir.DataType.DOUBLE: "double"}
