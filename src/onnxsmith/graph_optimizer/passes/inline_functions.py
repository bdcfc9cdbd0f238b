"""The bodies of a model's own functions in the place of their calls."""

from __future__ import annotations

import graphlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import onnx
import onnx_ir as ir

from onnxsmith.graph_analysis.nesting import subgraphs
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.rules import GraphPass
from onnxsmith.graph_optimizer.passes.splicing import splice

_DEFAULT_DOMAIN = ("", "ai.onnx")
_RUNTIME_DOMAIN = "com.microsoft"
_SMALL = 10_000
"""Nodes that a model may always come to."""

_GROWTH = 4
"""How many times its nodes a larger model may come to."""

_Key = ir.OperatorIdentifier


@dataclass(frozen=True)
class InlineFunctions(GraphPass):
    """Inlines the model's own functions, but for those that a runtime may have a faster operator for."""

    name: ClassVar[str] = "inline-functions"

    def edit(self, editor: Editor) -> None:
        """Inlines every call that can be, and those in what was inlined."""
        functions = editor.model.functions
        if not functions:
            return
        reasons = _reasons(editor)
        calls = deque(node for node in editor.nodes() if node.op_identifier() in functions)
        before = len(editor.nodes())
        after = before + _growth(functions, reasons, calls)
        allowed = max(_SMALL, _GROWTH * (before + sum(map(_size, functions.values()))))
        inlined = set()
        while calls:
            node = calls.popleft()
            key = node.op_identifier()
            reason = reasons.get(key) or _reason_of_call(node, functions[key])
            if reason is None and after > allowed:
                reason = f"with all functions inlined, {before:,} nodes would become {after:,}"
            if reason is not None:
                editor.decline(node, reason)
                continue
            calls.extend(_inline(editor, node, functions[key]))
            inlined.add(key)
            editor.count()
        editor.root = None
        _remove(editor, inlined)


def _reasons(editor: Editor) -> dict[_Key, str]:
    """The functions that must stay, and why."""
    functions = editor.model.functions
    callees = {key: _callees(function, functions) for key, function in functions.items()}
    try:
        order = list(graphlib.TopologicalSorter(callees).static_order())
    except graphlib.CycleError:
        return dict.fromkeys(functions, "functions of the model call each other in a circle")
    reasons: dict[_Key, str] = {}
    for key in order:
        reason = _reason(editor, functions[key])
        staying = next((callee for callee in callees[key] if callee in reasons), None)
        if reason is None and staying is not None:
            reason = f"it calls '{staying[0]}.{staying[1]}', which stays"
        if reason is not None:
            reasons[key] = reason
    return reasons


def _callees(function: ir.Function, functions: Mapping[_Key, ir.Function]) -> list[_Key]:
    return [key for key in (node.op_identifier() for node in function.all_nodes()) if key in functions]


def _reason(editor: Editor, function: ir.Function) -> str | None:
    """Why a function must stay whatever it calls."""
    domain = function.domain
    if domain == _RUNTIME_DOMAIN or domain.startswith(f"{_RUNTIME_DOMAIN}."):
        return "a runtime may have it as an operator of its own"
    if _schema(domain, function.name, _version(editor.model.opset_imports, domain)) is not None:
        return "a standard operator has its name, and runtimes take that one"
    for node in function.all_nodes():
        if node.op_identifier() in editor.model.functions:
            continue
        written_for = _version(function.opset_imports, node.domain)
        schema = _schema(node.domain, node.op_type, written_for)
        if schema is None:
            return f"it has '{node.domain}.{node.op_type}', which an engine may have its own way with"
        version = _version(editor.model.opset_imports, node.domain) or written_for
        at_models = _schema(node.domain, node.op_type, version)
        if at_models is None or at_models.since_version != schema.since_version:
            return (
                f"it is written for opset {written_for}, whose {node.op_type} is another than that of opset {version}"
            )
    return None


def _version(imports: Mapping[str, int], domain: str) -> int | None:
    if domain in _DEFAULT_DOMAIN:
        return next((imports[name] for name in _DEFAULT_DOMAIN if name in imports), None)
    return imports.get(domain)


def _schema(domain: str, op_type: str, version: int | None) -> onnx.defs.OpSchema | None:
    if version is None:
        return None
    try:
        return onnx.defs.get_schema(op_type, version, "" if domain == "ai.onnx" else domain)
    except onnx.defs.SchemaError:
        return None


def _size(function: ir.Function) -> int:
    return sum(1 for _ in function.all_nodes())


def _growth(functions: Mapping[_Key, ir.Function], reasons: Mapping[_Key, str], calls: deque[ir.Node]) -> int:
    """How many nodes there would be more."""
    callees = {key: _callees(function, functions) for key, function in functions.items() if key not in reasons}
    sizes: dict[_Key, int] = {}
    for key in graphlib.TopologicalSorter(callees).static_order():
        sizes[key] = _size(functions[key]) + sum(sizes[callee] - 1 for callee in callees[key])
    return sum(sizes[key] - 1 for key in (call.op_identifier() for call in calls) if key in sizes)


def _reason_of_call(node: ir.Node, function: ir.Function) -> str | None:
    """Why one call must stay."""
    if len(node.inputs) > len(function.inputs) or len(node.outputs) > len(function.outputs):
        return "it has more inputs or outputs than its function"
    missing = {value for value, given in zip(function.inputs, _arguments(node, function), strict=True) if given is None}
    if any(value in missing for value in function.outputs):
        return "an output is an input that is left out"
    if any(
        attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for attribute in node.attributes.values()
    ):
        return "it is given a graph"
    return None


def _arguments(node: ir.Node, function: ir.Function) -> list[ir.Value | None]:
    return [*node.inputs, *[None] * (len(function.inputs) - len(node.inputs))]


def _inline(editor: Editor, node: ir.Node, function: ir.Function) -> list[ir.Node]:
    """Puts a copy of a function's body in a call's place. Returns the calls in it."""
    copy = function.clone()
    given = {name: attribute for name, attribute in copy.attributes.items() if attribute.value is not None}
    given |= node.attributes
    nodes = list(copy.all_nodes())
    for inner in nodes:
        _resolve(inner, given)
        for value in inner.outputs:
            _rename(editor, value)
            if not value.is_graph_output():
                value.shape = value.type = None  # what was said of it need not hold for this call
        for graph in subgraphs(inner):
            for value in (*graph.inputs, *graph.initializers.values()):
                _rename(editor, value)
    imports = editor.model.opset_imports
    for domain in {inner.domain for inner in nodes}:
        if _version(imports, domain) is None:
            imports[domain] = _version(function.opset_imports, domain) or 1
    editor.root = node
    values = splice(editor, node, copy.graph, _arguments(node, function))
    for old, new in zip(list(node.outputs), values, strict=False):
        editor.replace(old, new)
    return [inner for inner in nodes if inner.op_identifier() in editor.model.functions]


def _rename(editor: Editor, value: ir.Value) -> None:
    """Gives a value of a copy a name of its own."""
    if value.name:
        value.name = editor.fresh(value.name)


def _resolve(node: ir.Node, given: Mapping[str, ir.Attr]) -> None:
    """Replaces references to the function's attributes; one to an attribute that is not given goes."""
    for name, attribute in list(node.attributes.items()):
        if attribute.is_ref():
            found = given.get(attribute.ref_attr_name or "")
            if found is None:
                del node.attributes[name]
            else:
                node.attributes[name] = ir.Attr(name, found.type, found.value, doc_string=found.doc_string)


def _remove(editor: Editor, inlined: set[_Key]) -> None:
    """Removes the functions that were inlined and that nothing calls any more."""
    functions = editor.model.functions
    called = {node.op_identifier() for node in editor.nodes()}
    for key, function in functions.items():
        if key not in inlined:
            called.update(_callees(function, functions))
    for key in inlined - called:
        del functions[key]
