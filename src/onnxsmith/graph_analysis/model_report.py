"""What `GraphInspector` reports."""

from __future__ import annotations

from onnxsmith.graph_analysis.attribute_values import AttributeValue
from onnxsmith.graph_analysis.shape_analyzer import DynamicDim
from onnxsmith.model import TensorSpec
from onnxsmith.records import Record


class ExternalFile(Record):
    """A file that holds external data.

    Attributes:
        name: Its path, relative to the model's folder.
        bytes: Its size.
    """

    name: str
    bytes: int


class InitializerInfo(Record):
    """An initializer.

    Attributes:
        name: Its name.
        shape: Its dimensions.
        elements: Their product.
        dtype: NumPy's name of its element type, or "string".
        bytes: Its size; 4-bit elements count half a byte.
        external: Whether it is in an external file.
        graph: The graph it is in: "" for the main graph, else as `Model.graphs` calls it.
    """

    name: str
    shape: tuple[int, ...]
    elements: int
    dtype: str
    bytes: int
    external: bool
    graph: str


class WeightTotals(Record):
    """The weights in numbers.

    Attributes:
        initializers: How many initializers there are in all graphs.
        parameters: Their elements.
        bytes: Their size.
        parameters_by_dtype: Their elements by dtype.
        constants: How many Constant nodes there are in all graphs; they are not among the parameters.
        constant_elements: The elements of those.
        constant_bytes: The size of those that are tensors.
    """

    initializers: int
    parameters: int
    bytes: int
    parameters_by_dtype: dict[str, int]
    constants: int
    constant_elements: int
    constant_bytes: int


class NodeInfo(Record):
    """A node.

    Attributes:
        index: Its place in its graph.
        op_type: Its operator.
        domain: The operator's domain; "" is ONNX's default one.
        name: Its name, which may be empty or not its own.
        inputs: The names of its inputs; "" where an optional one is left out.
        outputs: The names of its outputs.
        attributes: Its attributes as short values, see `attribute_value`.
        graph: The graph it is in: "" for the main graph, else as `Model.graphs` calls it.
    """

    index: int
    op_type: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, AttributeValue]
    graph: str


class FunctionInfo(Record):
    """A local function.

    Attributes:
        domain: Its domain.
        name: Its name.
        nodes: The nodes in its body.
    """

    domain: str
    name: str
    nodes: int


class Opportunity(Record):
    """Something that an optimiser can do to the model.

    Attributes:
        kind: The pattern: "Conv+BatchNormalization+Relu", "Dropout".
        nodes: The labels of its nodes.
        graph: The graph they are in.
        text: What can be done, in words.
    """

    kind: str
    nodes: tuple[str, ...]
    graph: str
    text: str


class ModelReport(Record):
    """A model, described without reading its weights.

    Attributes:
        path: The file, or None.
        digest: SHA-256, see `Model.digest`.
        size_bytes: Bytes on disk, external files included.
        external_files: The files with external data.
        ir_version: The version of the format.
        opsets: The version of each operator domain; the default one is "ai.onnx".
        producer_name: What wrote the model.
        producer_version: Its version.
        domain: The model's own domain.
        model_version: The model's own version.
        doc_string: Its description.
        graph_name: The name of the main graph.
        metadata: The model's metadata.
        inputs: What a caller must give.
        outputs: What a run returns.
        overridable_initializers: Inputs that a caller may give: an initializer stands behind each.
        initializers: The initializers of all graphs.
        totals: The weights in numbers.
        nodes: The nodes of all graphs, graph by graph; those in functions' bodies are not among them.
        node_count: How many those are.
        main_node_count: How many are in the main graph.
        op_counts: How many of each operator, the most frequent first, see `NodeCounter`.
        functions: The local functions.
        custom_operators: Operators that neither ONNX nor a local function defines: "com.microsoft::FusedConv".
        dynamic_dims: The dynamic dimensions of the inputs and outputs.
        opportunities: What an optimiser can do.
        warnings: What a user should know before deploying the model.
    """

    path: str | None
    digest: str
    size_bytes: int
    external_files: tuple[ExternalFile, ...]
    ir_version: int
    opsets: dict[str, int]
    producer_name: str
    producer_version: str
    domain: str
    model_version: int
    doc_string: str
    graph_name: str
    metadata: dict[str, str]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    overridable_initializers: tuple[str, ...]
    initializers: tuple[InitializerInfo, ...]
    totals: WeightTotals
    nodes: tuple[NodeInfo, ...]
    node_count: int
    main_node_count: int
    op_counts: dict[str, int]
    functions: tuple[FunctionInfo, ...]
    custom_operators: tuple[str, ...]
    dynamic_dims: tuple[DynamicDim, ...]
    opportunities: tuple[Opportunity, ...]
    warnings: tuple[str, ...]
