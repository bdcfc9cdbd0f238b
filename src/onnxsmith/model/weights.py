"""Where the weights of a model lie: in a file beside it, in it, or left out; and what is written for them then."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnx_ir as ir

from onnxsmith.model.carried import SparseTensor, is_packed
from onnxsmith.model.mapped import LeftInFile, MappedTensor, OpenFile
from onnxsmith.model.serializing import WITH_TENSORS, Replace
from onnxsmith.model.wire import Marks

_THRESHOLD = 1024
"""Initializers of more than this many bytes go to the external file, where there is one."""

_STREAMED = 1 << 16
"""Tensors of more than this many bytes go straight to the file, past the message."""


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


def tensor_slots(model: ir.Model) -> Iterator[Slot]:
    """Every tensor of a model and its functions."""
    for function in model.functions.values():
        for attribute in list(function.attributes.values()):
            yield from _attribute_slots(attribute, function.attributes.__setitem__)
    graphs = [*(function.graph for function in model.functions.values()), model.graph]
    while graphs:
        graph = graphs.pop()
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield Slot(value.const_value, partial(setattr, value, "const_value"), is_initializer=True)
        for node in graph:
            for attribute in [held for held in node.attributes.values() if held.type in WITH_TENSORS]:
                yield from _attribute_slots(attribute, node.attributes.__setitem__)
                if attribute.value is not None and not attribute.is_ref():
                    if attribute.type == ir.AttributeType.GRAPH:
                        graphs.append(attribute.value)
                    elif attribute.type == ir.AttributeType.GRAPHS:
                        graphs += attribute.value


@dataclass(frozen=True)
class Holdings:
    """Where the weights of a model lie.

    Attributes:
        embedded: The bytes of all tensors that lie in the model.
        external: The tensors that lie in files beside it.
        files: The model files that weights have been left in.
    """

    embedded: int
    external: tuple[ir.ExternalTensor, ...]
    files: frozenset[OpenFile]


def holdings(model: ir.Model) -> Holdings:
    """Looks where a model's weights lie."""
    embedded, external, files = 0, [], set()
    for slot in tensor_slots(model):
        tensor = slot.tensor
        if isinstance(tensor, ir.ExternalTensor):
            external.append(tensor)
        elif tensor.dtype != ir.DataType.STRING and not isinstance(tensor, SparseTensor):
            embedded += tensor.nbytes
            if isinstance(tensor, MappedTensor):
                files.add(tensor.file)
    return Holdings(embedded, tuple(external), frozenset(files))


def forget_metadata(model: ir.Model) -> None:
    """Clears the metadata in the messages behind tensors: onnx-ir has read it, and would write it twice."""
    for slot in tensor_slots(model):
        if isinstance(slot.tensor, ir.TensorProtoTensor):
            slot.tensor.raw.ClearField("metadata_props")


def bind_left(model: ir.Model, left: LeftInFile) -> None:
    """Gives a model, as onnx-ir read it, the tensors that were left in its file."""
    for slot in tensor_slots(model):
        if isinstance(slot.tensor, ir.TensorProtoTensor) and slot.tensor.raw in left:
            slot.put(left.tensor(slot.tensor))


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


def move_out(model: ir.Model, folder: Path, location: str) -> Replace:
    """Writes the weights to a new file, and none where there are no weights.

    Args:
        model: The model.
        folder: Where the file goes.
        location: The file's name.

    Returns:
        What to write for each tensor: for weights, where they are in that file.
    """
    slots = [slot for slot in tensor_slots(model) if _is_heavy(slot.tensor, slot.is_initializer)]
    heavy = list({id(slot.tensor): slot.tensor for slot in slots}.values())
    written = ir.external_data.convert_tensors_to_external(heavy, folder, location) if heavy else []
    moved = {id(tensor): _described(there, tensor) for tensor, there in zip(heavy, written, strict=True)}

    def replace(tensor: ir.TensorProtocol, is_initializer: bool) -> ir.TensorProtocol:
        return moved[id(tensor)] if _is_heavy(tensor, is_initializer) else tensor

    return replace


class LeftOut:
    """What to write for each tensor where heavy ones are references to nothing.

    Small tensors that shape inference may need are written, those of external files too.

    Attributes:
        tensors: The heavy ones that were met.
    """

    def __init__(self) -> None:
        self.tensors: list[ir.TensorProtocol] = []

    def __call__(self, tensor: ir.TensorProtocol, is_initializer: bool) -> ir.TensorProtocol:
        """What to write for a tensor."""
        if isinstance(tensor, ir.ExternalTensor) and tensor.nbytes <= _THRESHOLD:
            return _in_memory(tensor)
        if not _is_heavy(tensor, is_initializer):
            return tensor
        self.tensors.append(tensor)
        return _stub(tensor)


class Streamed:
    """What to write for each tensor where large ones go past the message: marks.

    Attributes:
        marks: The marks.
        tensors: The large ones that were met, by the mark's number.
    """

    def __init__(self, moved: Replace | None) -> None:
        """Takes what `move_out` returned; None where all weights go into the file."""
        self.marks = Marks()
        self.tensors: list[ir.TensorProtocol] = []
        self._moved = moved

    def __call__(self, tensor: ir.TensorProtocol, is_initializer: bool) -> ir.TensorProtocol:
        """What to write for a tensor."""
        if self._moved is not None:
            tensor = self._moved(tensor, is_initializer)
            if isinstance(tensor, ir.ExternalTensor):
                return tensor
        if _is_raw(tensor) and tensor.nbytes > _STREAMED:
            self.tensors.append(tensor)
            return _described(_Mark(self.marks.mark(len(self.tensors) - 1), tensor), tensor)
        return _in_memory(tensor) if isinstance(tensor, ir.ExternalTensor) else tensor


class _Mark(ir.LazyTensor):
    __slots__ = ("_mark",)

    def __init__(self, mark: bytes, tensor: ir.TensorProtocol) -> None:
        super().__init__(lambda: tensor, tensor.dtype, ir.Shape(tensor.shape.numpy()), name=tensor.name)
        self._mark = mark

    def tobytes(self) -> bytes:
        return self._mark


def _is_raw(tensor: ir.TensorProtocol) -> bool:
    """Whether a tensor is written as raw data; one that was read from another field goes back there."""
    if isinstance(tensor, ir.TensorProtoTensor) and not tensor.raw.HasField("raw_data"):
        return False
    return tensor.dtype != ir.DataType.STRING and not is_packed(tensor)


def _is_heavy(tensor: ir.TensorProtocol, is_initializer: bool) -> bool:
    """Whether a tensor belongs in an external file: it is there already, or it is a large initializer."""
    if isinstance(tensor, ir.ExternalTensor):
        return True
    plain = tensor.dtype != ir.DataType.STRING and not isinstance(tensor, SparseTensor)
    return is_initializer and plain and tensor.nbytes > _THRESHOLD


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
