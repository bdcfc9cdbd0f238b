"""Puts the configuration together from flags, environment, file and defaults, and says where each value came from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from onnxsmith.config import Config
from onnxsmith.errors import ConfigError
from onnxsmith.records import did_you_mean

ENV_PREFIX = "ONNXSMITH_"
DEFAULT_FILE = Path("config.yaml")

Key = tuple[str, ...]


@dataclass(frozen=True)
class LoadedConfig:
    """A configuration and its origins.

    Attributes:
        config: The configuration in force.
        file: The file that was read, or None.
        origins: For each key that is not at its default, where its value came from.
    """

    config: Config
    file: Path | None
    origins: Mapping[str, str] = field(default_factory=dict)


def load_config(
    file: Path | None = None,
    *,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """Loads the configuration.

    Args:
        file: A YAML file; None reads `config.yaml` in the current folder if it is there.
        flags: Values by dotted key (`benchmark.runs`), the strongest source. None values count as not given.
        environment: The environment; None is `os.environ`.

    Raises:
        ConfigError: A file, a key or a value is wrong; the message names its place and what would be right.
    """
    if file is None and DEFAULT_FILE.is_file():
        file = DEFAULT_FILE
    values: dict[str, Any] = {}
    origins: dict[Key, str] = {}
    for key, value, origin in (
        *(_read_file(file) if file is not None else ()),
        *_read_environment(os.environ if environment is None else environment),
        *_read_flags(flags or {}),
    ):
        _check_key(key, origin)
        _put(values, key, value)
        origins[key] = origin
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        raise _explain(error, origins) from None
    return LoadedConfig(config, file, {".".join(key): origin for key, origin in origins.items()})


def parse_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """Reads `key=value` flags, the values as YAML: `benchmark.runs=50`, `dims.batch=4`."""
    result = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {assignment}: write it as key=value, for example benchmark.runs=50.")
        result[key] = _scalar(value, f"--set {assignment}")
    return result


def _read_file(file: Path) -> Iterator[tuple[Key, Any, str]]:
    try:
        text = file.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except FileNotFoundError:
        raise ConfigError(f"{file}: there is no such configuration file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: not valid YAML: {error}") from None
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{file}: the top level must be keys and values, not a {root.tag.rsplit(':', 1)[-1]}.")
    yield from _walk_node(root, (), file)


def _walk_node(node: yaml.MappingNode, prefix: Key, file: Path) -> Iterator[tuple[Key, Any, str]]:
    seen: set[str] = set()
    for key_node, value_node in node.value:
        name = str(key_node.value)
        origin = f"{file}:{key_node.start_mark.line + 1}"
        if name in seen:
            raise ConfigError(f"{origin}: '{'.'.join((*prefix, name))}' is there twice.")
        seen.add(name)
        if isinstance(value_node, yaml.MappingNode):
            _check_key((*prefix, name), origin)
            yield from _walk_node(value_node, (*prefix, name), file)
        else:
            try:
                value = _construct(value_node)
            except yaml.YAMLError as error:
                raise ConfigError(f"{origin}: {error}") from None
            yield (*prefix, name), value, origin


def _construct(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    finally:
        loader.dispose()


def _read_environment(environment: Mapping[str, str]) -> Iterator[tuple[Key, Any, str]]:
    for name in sorted(environment):
        if name.startswith(ENV_PREFIX):
            path = tuple(name.removeprefix(ENV_PREFIX).split("__"))
            key = tuple(part.lower() for part in path)
            if key[0] == "dims":
                key = (*key[:1], *path[1:])
            yield key, _scalar(environment[name], name), name


def _read_flags(flags: Mapping[str, Any]) -> Iterator[tuple[Key, Any, str]]:
    for dotted, value in flags.items():
        if value is not None:
            # The names of dimensions may have dots in them.
            key = ("dims", dotted.removeprefix("dims.")) if dotted.startswith("dims.") else tuple(dotted.split("."))
            yield key, value, f"the flag for {dotted}"


def _scalar(text: str, origin: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"{origin}: '{text}' is not a valid YAML value; put quotes around it.") from None


def _put(values: dict[str, Any], key: Key, value: Any) -> None:
    for part in key[:-1]:
        inner = values.get(part)
        if not isinstance(inner, dict):
            inner = values[part] = {}
        values = inner
    values[key[-1]] = value


def _section(prefix: Key) -> type[BaseModel] | None:
    """The model that holds the keys under a prefix; None where the keys are free."""
    model: type[BaseModel] = Config
    for part in prefix:
        annotation = model.model_fields[part].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return None
        model = annotation
    return model


def _check_key(key: Key, origin: str) -> None:
    for depth, part in enumerate(key):
        model = _section(key[:depth])
        if model is None:
            if key[:depth] == ("dims",):
                return
            raise ConfigError(f"{origin}: '{'.'.join(key[:depth])}' is a value; it has no key '{part}'.")
        if part not in model.model_fields:
            where = ".".join(key[:depth])
            place = f" in '{where}'" if where else ""
            raise ConfigError(
                f"{origin}: unknown key '{part}'{place}.{did_you_mean(part, model.model_fields) or _elsewhere(part)}",
                f"The keys there are: {', '.join(model.model_fields)}.",
            )


def _elsewhere(name: str) -> str:
    """A suggestion for a key that stands in another section."""
    places = [".".join(key) for key in iterate_keys() if key[-1] == name]
    return f" Did you mean '{places[0]}'?" if places else ""


def iterate_keys(model: type[BaseModel] = Config, prefix: Key = ()) -> Iterator[Key]:
    """Every key of the configuration that holds a value, sections walked through."""
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from iterate_keys(info.annotation, (*prefix, name))
        else:
            yield (*prefix, name)


def _explain(error: ValidationError, origins: Mapping[Key, str]) -> ConfigError:
    lines = [_explain_one(details, origins) for details in error.errors()]
    return ConfigError("\n".join(lines), "`onnxsmith config schema` lists every key, its type and its default.")


def _explain_one(details: ErrorDetails, origins: Mapping[Key, str]) -> str:
    location = tuple(str(part) for part in details["loc"])
    origin = next((origins[key] for key in origins if key == location[: len(key)]), None)
    place = f"{origin}: " if origin else ""
    message = details["msg"].removeprefix("Value error, ")
    if not location:
        return f"{place}{message}."
    return f"{place}'{'.'.join(location)}' is {details['input']!r}: {message[:1].lower()}{message[1:]}."
