from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from onnxsmith.config import BenchmarkConfig, Config
from onnxsmith.config_loading import LoadedConfig, iterate_keys, load_config, override, parse_assignments
from onnxsmith.errors import ConfigError

REPOSITORY_FILE = Path(__file__).parent.parent / "config.yaml"


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads a configuration from a text, variables and `--set` flags, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def load_text(
        text: str | None = None, environment: dict[str, str] | None = None, flags: list[str] | None = None
    ) -> LoadedConfig:
        if text is not None:
            Path("c.yaml").write_text(text, encoding="utf-8")
        return load_config(
            Path("c.yaml") if text is not None else None,
            environment=environment or {},
            flags=parse_assignments(flags or []),
        )

    return load_text


# ---- the file in the repository


def test_repository_file_holds_every_key_at_its_default(monkeypatch):
    monkeypatch.chdir(REPOSITORY_FILE.parent)
    loaded = load_config(environment={})
    assert loaded.file == Path("config.yaml")
    assert loaded.config == Config()
    keys = {".".join(key) for key in iterate_keys()} - {"dims", "optimization.dims"}
    assert keys == set(loaded.origins)


def test_repository_file_is_in_the_order_of_the_model():
    def order(values: dict[str, object]) -> list[object]:
        return [(key, order(value) if isinstance(value, dict) else None) for key, value in values.items()]

    file = yaml.safe_load(REPOSITORY_FILE.read_text(encoding="utf-8"))
    assert order(file) == order(Config().model_dump(mode="json"))
    assert file == Config().model_dump(mode="json")


# ---- precedence


def test_defaults_without_any_source(load):
    loaded = load()
    assert loaded.config == Config()
    assert loaded.file is None
    assert loaded.origins == {}


@pytest.mark.parametrize(
    ("key", "values", "expected"),
    [
        ("benchmark.runs", ("1", "2", "3"), (1, 2, 3)),
        ("benchmark.batch_sizes", ("[1, 2]", "3,4", "5"), ((1, 2), (3, 4), (5,))),
        ("export.pytorch.output_names", ("[a]", "b,c", "d"), (("a",), ("b", "c"), ("d",))),
        ("export.pytorch.dynamic", ("none", "batch_and_image", "batch"), ("none", "batch_and_image", "batch")),
        ("export.pytorch.input_shapes", ("[[1, 2]]", "[[3]]", "[[4], [5]]"), (((1, 2),), ((3,),), ((4,), (5,)))),
        ("inference.enable_profiling", ("no", "yes", "false"), (False, True, False)),
        ("paths.outputs", ("a", "b/c", "d"), (Path("a"), Path("b/c"), Path("d"))),
        ("export.training.learning_rate", ("1e-3", "0.5", "2"), (0.001, 0.5, 2.0)),
        ("dims.batch", ("4", "5", "6"), (4, 5, 6)),
    ],
)
def test_flag_over_environment_over_file_over_default(load, key, values, expected):
    *sections, name = key.split(".")
    in_file, in_environment, in_flag = values
    text = "".join(f"{'  ' * depth}{part}:\n" for depth, part in enumerate(sections)).rstrip("\n")
    text = f"{text}\n{'  ' * len(sections)}{name}: {in_file}\n".lstrip("\n")
    variable = "ONNXSMITH_" + "__".join(
        [*(part.upper() for part in sections), name if sections[0] == "dims" else name.upper()]
    )
    variables = {variable: in_environment}
    flags = [f"{key}={in_flag}"]

    def get(loaded: LoadedConfig) -> object:
        value: object = loaded.config
        for part in key.split("."):
            value = value[part] if isinstance(value, dict) else getattr(value, part)
        return value

    assert get(load(text)) == expected[0]
    assert get(load(text, variables)) == expected[1]
    assert get(load(text, variables, flags)) == expected[2]
    assert load(text, variables, flags).origins == {key: f"the flag for {key}"}
    assert load(text, variables).origins == {key: variable}
    assert load(text).origins == {key: f"c.yaml:{len(sections) + 1}"}


def test_sources_mix_key_by_key(load):
    loaded = load(
        "dims: {batch: 2, sequence: 16}\nbenchmark:\n  runs: 5\n  warmup_runs: 1\n",
        {"ONNXSMITH_BENCHMARK__RUNS": "7", "ONNXSMITH_DIMS__sequence": "32"},
        ["dims.width=64", "seed=3"],
    )
    assert loaded.config.benchmark == BenchmarkConfig(runs=7, warmup_runs=1)
    assert loaded.config.dims == {"batch": 2, "sequence": 32, "width": 64}
    assert loaded.config.seed == 3
    assert loaded.origins == {
        "dims.batch": "c.yaml:1",
        "dims.sequence": "ONNXSMITH_DIMS__sequence",
        "dims.width": "the flag for dims.width",
        "benchmark.runs": "ONNXSMITH_BENCHMARK__RUNS",
        "benchmark.warmup_runs": "c.yaml:4",
        "seed": "the flag for seed",
    }


def test_a_section_given_as_a_whole_keeps_its_other_keys(load):
    loaded = load("benchmark:\n  runs: 5\n", {"ONNXSMITH_BENCHMARK": "{warmup_runs: 2}"}, ["limits={memory_mb: 9}"])
    assert loaded.config.benchmark == BenchmarkConfig(runs=5, warmup_runs=2)
    assert loaded.config.limits.memory_mb == 9
    assert loaded.config.limits.timeout_s == 1800


def test_null_can_be_written(load):
    text = "inference:\n  optimized_model_path: a.onnx\n"
    assert load(text).config.inference.optimized_model_path == Path("a.onnx")
    assert load(text, flags=["inference.optimized_model_path=null"]).config.inference.optimized_model_path is None
    variables = {"ONNXSMITH_INFERENCE__OPTIMIZED_MODEL_PATH": "null"}
    assert load(text, variables).config.inference.optimized_model_path is None


def test_a_flag_of_none_and_an_empty_variable_are_not_given(load):
    assert load("seed: 5", {"ONNXSMITH_SEED": ""}).config.seed == 5
    assert load_config(Path("c.yaml"), environment={}, flags={"seed": None}).config.seed == 5


def test_names_of_dimensions_are_free(load):
    loaded = load(
        "dims:\n  input.0: 2\n  Größe: 3\n  1: 4\n",
        {"ONNXSMITH_DIMS__past__length": "5", "ONNXSMITH_dims__N": "6"},
        ["dims.pixel_values.2=7"],
    )
    assert loaded.config.dims == {
        "input.0": 2, "Größe": 3, "1": 4, "past__length": 5, "N": 6, "pixel_values.2": 7
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "# only a comment\n", "---\n", "benchmark:\n", "dims:\n", "dims: {}\nexport: {}\n"]
)
def test_nothing_in_the_file(load, text):
    assert load(text).config == Config()


def test_anchors_and_merge_keys(load):
    loaded = load(
        """
export:
  pytorch: &common
    opset: &opset 18
  sklearn:
    <<: *common
    samples: 50
inference: {top_k: *opset}
"""
    )
    assert loaded.config.export.pytorch.opset == 18
    assert loaded.config.export.sklearn.opset == 18
    assert loaded.config.export.sklearn.samples == 50
    assert loaded.config.inference.top_k == 18


def test_own_keys_win_over_merged_ones(load):
    loaded = load("export:\n  pytorch: &p\n    opset: 18\n  sklearn:\n    opset: 19\n    <<: *p\n")
    assert loaded.config.export.sklearn.opset == 19
    assert loaded.origins["export.sklearn.opset"] == "c.yaml:5"


def test_default_file_in_the_folder_is_read(load):
    Path("config.yaml").write_text("seed: 8\n")
    loaded = load()
    assert loaded.config.seed == 8
    assert loaded.file == Path("config.yaml")


# ---- errors

ALL = "model, seed, dims, paths, export, optimization, inference, benchmark, limits, logging"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("benchmark:\n  run: 5", "c.yaml:2: unknown key 'run' in 'benchmark'. Did you mean 'runs'?"),
        (
            "benchmark:\n  batch_size: 5",
            "c.yaml:2: unknown key 'batch_size' in 'benchmark'. Did you mean 'batch_sizes'?",
        ),
        ("seed: 1\nruns: 5", "c.yaml:2: unknown key 'runs'. Did you mean 'benchmark.runs'?"),
        (
            "benchmark: {opset: 17}",
            "c.yaml:1: unknown key 'opset' in 'benchmark'. "
            "Did you mean 'export.pytorch.opset' or 'export.sklearn.opset' or 'optimization.opset'?",
        ),
        ("intra_op_thread: 1", "c.yaml:1: unknown key 'intra_op_thread'. Did you mean 'inference.intra_op_threads'?"),
        ("zzz: 1", f"c.yaml:1: unknown key 'zzz'.\nThe keys there are: {ALL}."),
        ("Größe: 1", "c.yaml:1: unknown key 'Größe'."),
        ("1: 2", "c.yaml:1: unknown key '1'."),
        ("? [a, b]\n: 1", "c.yaml:1: a key must be a name."),
        ("benchmark:\n  runs: x", "c.yaml:2: 'benchmark.runs' is 'x': input should be a valid integer"),
        ("benchmark:\n  runs: 0", "c.yaml:2: 'benchmark.runs' is 0: input should be greater than or equal to 1."),
        ("benchmark:\n  runs: yes", "c.yaml:2: 'benchmark.runs' is True: a number is needed."),
        ("benchmark:\n  runs: 2.5", "c.yaml:2: 'benchmark.runs' is 2.5: input should be a valid integer"),
        ("benchmark:\n  runs:", "c.yaml:2: 'benchmark.runs' is None: input should be a valid integer."),
        ("benchmark:\n  runs: [1]", "c.yaml:2: 'benchmark.runs' is [1]: input should be a valid integer."),
        ("benchmark: {batch_sizes: []}", "c.yaml:1: 'benchmark.batch_sizes' is []: value should have at least 1 item"),
        ("benchmark: {batch_sizes: [1, 0]}", "c.yaml:1: 'benchmark.batch_sizes.1' is 0: input should be greater than"),
        ("benchmark: {batch_sizes: [yes]}", "c.yaml:1: 'benchmark.batch_sizes.0' is True: a number is needed."),
        ("limits: {timeout_s: .inf}", "c.yaml:1: 'limits.timeout_s' is inf: input should be a finite number."),
        ("limits: {timeout_s: -1}", "c.yaml:1: 'limits.timeout_s' is -1: input should be greater than 0."),
        ("seed: 4294967296", "c.yaml:1: 'seed' is 4294967296: input should be less than 4294967296."),
        (
            "export:\n  pytorch:\n    dynamic: all",
            "c.yaml:3: 'export.pytorch.dynamic' is 'all': input should be 'batch', 'batch_and_image' or 'none'.",
        ),
        (
            "export: {pytorch: {input_shapes: [[0, 3]]}}",
            "'export.pytorch.input_shapes.0.0' is 0: input should be greater",
        ),
        (
            "inference: {image_std: [1, 0, 1]}",
            "c.yaml:1: 'inference.image_std.1' is 0: input should be greater than 0.",
        ),
        ("dims: {batch: 0}", "c.yaml:1: 'dims.batch' is 0: input should be greater than or equal to 1."),
        ("dims: {batch: {a: 1}}", "c.yaml:1: 'dims.batch' takes a value, and has no keys of its own."),
        ("dims: 4", "c.yaml:1: 'dims' is a section and takes no value of its own.\nIts keys are: the names of dynamic"),
        (
            "benchmark: 5",
            "c.yaml:1: 'benchmark' is a section and takes no value of its own.\nIts keys are: batch_sizes",
        ),
        ("benchmark: [runs]", "c.yaml:1: 'benchmark' is a section and takes no value of its own."),
        ("benchmark:\n  runs:\n    a: 1", "c.yaml:2: 'benchmark.runs' takes a value, and has no keys of its own."),
        ("benchmark: {runs: {}}", "c.yaml:1: 'benchmark.runs' takes a value, and has no keys of its own."),
        ("seed: 0\nseed: 1", "c.yaml:2: 'seed' is there twice."),
        ("benchmark:\n  runs: 1\n  runs: 1", "c.yaml:3: 'benchmark.runs' is there twice."),
        ("- seed", "c.yaml: the top level must be keys and values, as in `seed: 0`."),
        ("seed", "c.yaml: the top level must be keys and values"),
        ("seed: 1\nb: [1", "c.yaml:2: not valid YAML: while parsing a flow sequence, expected ',' or ']'"),
        ("seed: a: b", "c.yaml:1: not valid YAML: mapping values are not allowed here."),
        ("seed: 1\n---\nseed: 2", "c.yaml:2: not valid YAML: expected a single document in the stream"),
        ("seed: \x01", "c.yaml: not valid YAML: unacceptable character #x0001"),
        ("seed: *a", "c.yaml:1: not valid YAML: found undefined alias 'a'."),
        ("dims: &d {a: *d}", "c.yaml:1: not valid YAML: found unconstructable recursive node."),
        (
            "export:\n  sklearn:\n    <<: 5",
            "c.yaml:3: not valid YAML: while constructing a mapping, expected a mapping",
        ),
        ("seed: !!python/object/apply:os.getpid []", "c.yaml:1: not valid YAML: could not determine a constructor"),
        ("benchmark: !!python/object:os.x {runs: 5}", "c.yaml:1: not valid YAML: could not determine a constructor"),
        ("export: {pytorch: {module: 'a:b'}}", "export.pytorch.input_shapes is needed with export.pytorch.module"),
        (
            "export: {pytorch: {module: 'a:b', input_shapes: [[1]], input_dtypes: [int64, int64]}}",
            "export.pytorch.input_dtypes has 2 entries and input_shapes 1: give one for each input.",
        ),
    ],
)
def test_bad_file(load, text, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        load(text)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ONNXSMITH_BENCHMARK_RUNS", "5", "there is no such setting. Did you mean 'ONNXSMITH_BENCHMARK__RUNS'?"),
        ("ONNXSMITH_BENCHMARK__RUN", "5", "there is no such setting. Did you mean 'ONNXSMITH_BENCHMARK__RUNS'?"),
        ("ONNXSMITH_BENCH__RUNS", "5", "there is no such setting. Did you mean 'ONNXSMITH_BENCHMARK__RUNS'?"),
        ("ONNXSMITH_BENCHMARK__RUNS__X", "5", "there is no such setting. Did you mean 'ONNXSMITH_BENCHMARK__RUNS'?"),
        ("ONNXSMITH_BENCHMARK", "5", "'benchmark' is a section and takes no value of its own."),
        ("ONNXSMITH_BENCHMARK__RUNS", "five", "'benchmark.runs' is 'five': input should be a valid integer"),
        ("ONNXSMITH_BENCHMARK__RUNS", "[1", "'[1' is not a valid YAML value; put quotes around it."),
        ("ONNXSMITH_BENCHMARK__BATCH_SIZES", "1,none", "'benchmark.batch_sizes.1' is 'none': input should be"),
        ("ONNXSMITH_DIMS", "batch", "'dims' is a section and takes no value of its own."),
        ("ONNXSMITH_DIMS__batch", "-2", "'dims.batch' is -2: input should be greater than or equal to 1."),
    ],
)
def test_bad_variable(load, name, value, message):
    with pytest.raises(ConfigError, match=re.escape(f"{name}: {message}")):
        load(environment={name: value})


def test_other_variables_are_let_be(load):
    assert load(environment={"PATH": "x", "ONNX_HOME": "y", "ONNXSMITHY": "z"}).origins == {}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("benchmark.run=5", "the flag for benchmark.run: unknown key 'run' in 'benchmark'. Did you mean 'runs'?"),
        ("benchmark.runs.x=5", "the flag for benchmark.runs.x: 'benchmark.runs' is a value; it has no key 'x'."),
        ("benchmark.runs=x", "the flag for benchmark.runs: 'benchmark.runs' is 'x': input should be a valid integer"),
        ("benchmark=5", "the flag for benchmark: 'benchmark' is a section and takes no value of its own."),
        ("benchmark.runs", "--set benchmark.runs: write it as key=value, for example benchmark.runs=50."),
        ("=5", "--set =5: write it as key=value"),
        ("seed={", "--set seed={: '{' is not a valid YAML value; put quotes around it."),
    ],
)
def test_bad_flag(load, assignment, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        load(flags=[assignment])


def test_several_bad_values_are_all_named(load):
    with pytest.raises(ConfigError) as caught:
        load("seed: -1\nbenchmark: {runs: 0}", {"ONNXSMITH_LIMITS__MEMORY_MB": "much"})
    assert [line.split(" is ")[0] for line in caught.value.message.splitlines()] == [
        "c.yaml:1: 'seed'",
        "c.yaml:2: 'benchmark.runs'",
        "ONNXSMITH_LIMITS__MEMORY_MB: 'limits.memory_mb'",
    ]


def test_a_long_value_is_cut_in_the_message(load):
    with pytest.raises(ConfigError) as caught:
        load(f"seed: {'x' * 5000}")
    assert len(caught.value.message) < 300


def test_missing_file(load, tmp_path):
    load()
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: there is no such configuration file"):
        load_config(Path("nowhere.yaml"), environment={})
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path, environment={})


def test_file_that_is_no_text(load):
    Path("c.yaml").write_bytes(b"seed: \xff\xfe")
    with pytest.raises(ConfigError, match=r"c\.yaml: is not a text file in UTF-8\."):
        load_config(Path("c.yaml"), environment={})


# ---- the model, and changes to it


def test_configuration_is_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        Config().benchmark.runs = 5
    with pytest.raises(ValidationError, match="frozen"):
        Config().seed = 5
    assert hash(BenchmarkConfig(runs=5)) == hash(BenchmarkConfig(runs=5))


def test_schema_describes_every_key():
    schema = Config.model_json_schema()
    sections = [schema, *schema["$defs"].values()]
    for section in sections:
        for name, entry in section["properties"].items():
            assert "$ref" in entry or entry.get("description"), name


def test_override_changes_only_what_is_given():
    config = Config(seed=4, dims={"batch": 2})
    changed = override(config, {"benchmark.runs": 9, "dims.sequence": 3, "seed": None})
    assert changed == Config(seed=4, dims={"batch": 2, "sequence": 3}, benchmark=BenchmarkConfig(runs=9))
    assert config == Config(seed=4, dims={"batch": 2})
    with pytest.raises(ConfigError, match=r"the argument for benchmark\.run: unknown key 'run'"):
        override(config, {"benchmark.run": 9})
