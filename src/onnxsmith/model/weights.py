"""Where the weights of a model lie: in a file beside it, in it, or left out. Each answer is a copy of the model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnx_ir as ir

from onnxsmith.errors import InvalidModelError
from onnxsmith.model.carried import SparseTensor

_THRESHOLD = 1024
"""Initializers of more than this many bytes go to the external file, where there is one."""


@dataclass(frozen=True)
class Slot:
    """A place for a tensor.

    Attributes:
        tensor: What is there.
        put: Puts another there.
        is_initializer: Whether the place is an initializer, as against an attribute.
    """

    tensor: ir.TensorProtocol
    put: Callable[[ir.TensorProtocol], None]
    is_initializer: bool

    @property
    def is_external(self) -> bool:
        """Whether the tensor lies in a file."""
        return isinstance(self.tensor, ir.ExternalTensor)

    @property
    def is_heavy(self) -> bool:
        """Whether the tensor belongs in an external file: it is there already, or it is a large initializer."""
        if self.is_external:
            return True
        plain = self.tensor.dtype != ir.DataType.STRING and not isinstance(self.tensor, SparseTensor)
        return self.is_initializer and plain and self.tensor.nbytes > _THRESHOLD


def tensor_slots(model: ir.Model) -> Iterator[Slot]:
    """Every tensor of a model and its functions: initializers first, graph by graph, then attributes."""
    for graph in _all_graphs(model):
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield Slot(value.const_value, partial(setattr, value, "const_value"), is_initializer=True)
    for graph in _all_graphs(model):
        for node in graph:
            for attribute in list(node.attributes.values()):
                yield from _attribute_slots(attribute, node.attributes.__setitem__)
    for function in model.functions.values():
        for attribute in list(function.attributes.values()):
            yield from _attribute_slots(attribute, function.attributes.__setitem__)


def embedded_bytes(model: ir.Model) -> int:
    """The bytes of all tensors that lie in the model."""
    return sum(
        slot.tensor.nbytes
        for slot in tensor_slots(model)
        if not slot.is_external
        and slot.tensor.dtype != ir.DataType.STRING
        and not isinstance(slot.tensor, SparseTensor)
    )


def external_tensors(model: ir.Model) -> list[ir.ExternalTensor]:
    """The tensors that lie in files."""
    return [slot.tensor for slot in tensor_slots(model) if isinstance(slot.tensor, ir.ExternalTensor)]


def bind_external(model: ir.Model, folder: Path, allowed: Collection[Path]) -> None:
    """Tells each external tensor, which has been checked, where its file is.

    Args:
        model: A model as onnx-ir read it.
        folder: The folder that its locations are relative to.
        allowed: The files that were found safe, those that are links out of the folder too.
    """
    root = folder.resolve()
    for slot in tensor_slots(model):
        if isinstance(slot.tensor, ir.ExternalTensor):
            path = folder / slot.tensor.location
            slot.tensor.base_dir = folder
            if path in allowed and not path.resolve().is_relative_to(root):
                # onnx-ir would refuse the link, so it gets what the link leads to.
                slot.put(_at(slot.tensor, path.resolve()))


def _at(tensor: ir.ExternalTensor, path: Path) -> ir.TensorProtocol:
    return _described(
        ir.ExternalTensor(path, tensor.offset, tensor.length, tensor.dtype, shape=tensor.shape, name=tensor.name),
        tensor,
    )


def move_out(model: ir.Model, folder: Path, location: str) -> ir.Model:
    """A copy whose weights lie in a new file; the file is not written where there are none.

    Args:
        model: The model.
        folder: Where the file goes.
        location: The file's name.
    """
    copy = _copy(model)
    slots = [slot for slot in tensor_slots(copy) if slot.is_heavy]
    if slots:
        written = ir.external_data.convert_tensors_to_external([slot.tensor for slot in slots], folder, location)
        for slot, tensor in zip(slots, written, strict=True):
            slot.put(_described(tensor, slot.tensor))
    return copy


def move_in(model: ir.Model) -> ir.Model:
    """A copy without external tensors; their bytes are read when it is serialised."""
    copy = _copy(model)
    for slot in tensor_slots(copy):
        if slot.is_external:
            slot.put(_in_memory(slot.tensor))
    return copy


def leave_out(model: ir.Model) -> tuple[ir.Model, list[ir.TensorProtocol]]:
    """A copy whose heavy tensors are references to nothing, and these tensors.

    Small tensors that shape inference may need are kept in the copy, those of external files too.
    """
    copy = _copy(model)
    left = []
    for slot in tensor_slots(copy):
        if slot.is_external and slot.tensor.nbytes <= _THRESHOLD:
            slot.put(_in_memory(slot.tensor))
        elif slot.is_heavy:
            left.append(slot.tensor)
            slot.put(_stub(slot.tensor))
    return copy, left


def _stub(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    shape = ir.Shape(tensor.shape.numpy())
    return _described(
        ir.ExternalTensor("left out", None, None, tensor.dtype, shape=shape, name=tensor.name or ""), tensor
    )


def _in_memory(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return _described(ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=tensor.name), tensor)


def _described(tensor: ir.TensorProtocol, original: ir.TensorProtocol) -> ir.TensorProtocol:
    tensor.doc_string = original.doc_string
    tensor.metadata_props.update(original.metadata_props)
    return tensor


def _copy(model: ir.Model) -> ir.Model:
    try:
        return model.clone()
    except RuntimeError as error:
        raise InvalidModelError(
            f"the graph '{model.graph.name}' uses values that nothing makes, or its nodes are not in order."
        ) from error


def _all_graphs(model: ir.Model) -> Iterator[ir.Graph]:
    yield from model.graphs()
    for function in model.functions.values():
        yield function.graph
        yield from function.subgraphs()


def _attribute_slots(attribute: ir.Attr, put: Callable[[str, ir.Attr], None]) -> Iterator[Slot]:
    if attribute.is_ref() or attribute.value is None:
        return
    if attribute.type == ir.AttributeType.TENSOR:
        yield Slot(attribute.value, partial(_put_one, attribute, put), is_initializer=False)
    elif attribute.type == ir.AttributeType.TENSORS:
        tensors = list(attribute.value)
        for index, tensor in enumerate(tensors):
            yield Slot(tensor, partial(_put_in_list, attribute, put, tensors, index), is_initializer=False)


def _put_one(attribute: ir.Attr, put: Callable[[str, ir.Attr], None], tensor: ir.TensorProtocol) -> None:
    put(attribute.name, ir.AttrTensor(attribute.name, tensor, doc_string=attribute.doc_string))


def _put_in_list(
    attribute: ir.Attr,
    put: Callable[[str, ir.Attr], None],
    tensors: list[ir.TensorProtocol],
    index: int,
    tensor: ir.TensorProtocol,
) -> None:
    tensors[index] = tensor
    put(attribute.name, ir.AttrTensors(attribute.name, tuple(tensors), doc_string=attribute.doc_string))
