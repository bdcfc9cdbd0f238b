"""Puts the configuration together from flags, environment, file and defaults, and says where each value came from."""

from __future__ import annotations

import difflib
import os
import reprlib
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
Entry = tuple[Key, Any, str]
"""A key, its value, and where it stands."""

_FREE: tuple[Key, ...] = (("dims",), ("optimization", "dims"))
"""The sections whose keys are free, and may hold dots and underscores."""

_NULL = object()
"""A null that was written, as against a flag that was not given."""

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 80
_MAPPING_TAG = "tag:yaml.org,2002:map"
_NULL_TAG = "tag:yaml.org,2002:null"


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
    entries = [
        *(_read_file(Path(file)) if file is not None else ()),
        *_read_environment(os.environ if environment is None else environment),
        *_read_flags(flags or {}, "the flag for"),
    ]
    config = _validated({}, entries)
    return LoadedConfig(config, file, {".".join(key): origin for key, _, origin in entries})


def override(config: Config, values: Mapping[str, Any]) -> Config:
    """A configuration with some values changed.

    Args:
        config: The configuration.
        values: Values by dotted key; None values count as not given.

    Raises:
        ConfigError: A key or a value is wrong.
    """
    return _validated(config.model_dump(), list(_read_flags(values, "the argument for")))


def _validated(values: dict[str, Any], entries: Sequence[Entry]) -> Config:
    for key, value, _ in entries:
        inner = values
        for part in key[:-1]:
            inner = inner.setdefault(part, {})
        inner[key[-1]] = value
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise _explain(error, {key: origin for key, _, origin in entries}) from None


def parse_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """Reads `key=value` flags, the values as YAML: `benchmark.runs=50`, `dims.batch=4`."""
    result = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {assignment}: write it as key=value, for example benchmark.runs=50.")
        value = _parse_value(text, f"--set {assignment}")
        result[key.strip()] = _NULL if value is None else value
    return result


def _read_file(file: Path) -> Iterator[Entry]:
    try:
        root = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        _refuse_duplicates(root, (), file, set())
    except FileNotFoundError:
        raise ConfigError(
            f"{file}: there is no such configuration file.",
            f"Where no file is named, {DEFAULT_FILE} is read if it is there.",
        ) from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: is not a text file in UTF-8.") from None
    except yaml.YAMLError as error:
        raise _yaml_error(error, str(file)) from None
    if root is None or root.tag == _NULL_TAG:
        return
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{file}: the top level must be keys and values, as in `seed: 0`.")
    try:
        yield from _walk(root, (), str(file), file)
    except yaml.YAMLError as error:
        raise _yaml_error(error, str(file)) from None


def _refuse_duplicates(node: yaml.Node | None, prefix: Key, file: Path, done: set[int]) -> None:
    if not isinstance(node, yaml.MappingNode) or id(node) in done:
        return
    done.add(id(node))
    seen: set[str] = set()
    for key_node, value_node in node.value:
        place = f"{file}:{key_node.start_mark.line + 1}"
        if not isinstance(key_node, yaml.ScalarNode):
            raise ConfigError(f"{place}: a key must be a name.")
        if key_node.value in seen:
            raise ConfigError(f"{place}: '{'.'.join((*prefix, key_node.value))}' is there twice.")
        seen.add(key_node.value)
        _refuse_duplicates(value_node, (*prefix, key_node.value), file, done)


def _walk(node: yaml.Node, key: Key, origin: str, file: Path) -> Iterator[Entry]:
    """The values under a node, each with its own line."""
    _check_key(key, origin)
    loader = yaml.SafeLoader("")
    try:
        if _is_section(key) and isinstance(node, yaml.MappingNode) and node.tag == _MAPPING_TAG:
            # What `<<` merges comes first, so that the mapping's own keys win.
            loader.flatten_mapping(node)
            for key_node, value_node in node.value:
                yield from _walk(value_node, (*key, key_node.value), f"{file}:{key_node.start_mark.line + 1}", file)
        else:
            yield from _leaves(key, loader.construct_object(node, deep=True), origin)
    finally:
        loader.dispose()


def _yaml_error(error: yaml.YAMLError, place: str) -> ConfigError:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        context = f"{error.context}, " if error.context else ""
        return ConfigError(f"{place}:{error.problem_mark.line + 1}: not valid YAML: {context}{error.problem}.")
    reason = str(error).split("\n", maxsplit=1)[0]
    return ConfigError(f"{place}: not valid YAML: {reason}.")


def _read_environment(environment: Mapping[str, str]) -> Iterator[Entry]:
    """The variables that begin with `ONNXSMITH_`; an empty one counts as not set."""
    for name in sorted(environment):
        if name.startswith(ENV_PREFIX) and environment[name].strip():
            parts = name.removeprefix(ENV_PREFIX).split("__")
            key = _with_free_end(parts, "__")
            if key not in _FREE and key[:-1] not in _FREE:
                key = tuple(part.lower() for part in parts)
                _check_variable(name, key)
            yield from _leaves(key, _parse_value(environment[name], name), name)


def _check_variable(name: str, key: Key) -> None:
    known = {_variable(known_key[:depth]) for known_key in iterate_keys() for depth in range(1, len(known_key) + 1)}
    if _variable(key) not in known:
        raise ConfigError(
            f"{name}: there is no such setting.{did_you_mean(name.upper(), known)}",
            f"Write {ENV_PREFIX} and the key with two underscores between levels: {_variable(('benchmark', 'runs'))}.",
        )


def _variable(key: Key) -> str:
    return ENV_PREFIX + "__".join(key).upper()


def _read_flags(flags: Mapping[str, Any], kind: str) -> Iterator[Entry]:
    for dotted, value in flags.items():
        if value is not None:
            key = _with_free_end(dotted.split("."), ".")
            yield from _leaves(key, None if value is _NULL else value, f"{kind} {dotted}")


def _with_free_end(parts: Sequence[str], separator: str) -> Key:
    """A key in parts; what follows a section whose keys are free is one part."""
    for free in _FREE:
        depth = len(free)
        if tuple(part.lower() for part in parts[:depth]) == free:
            rest = parts[depth:]
            return (*free, separator.join(rest)) if rest else free
    return tuple(parts)


def _leaves(key: Key, value: Any, origin: str) -> Iterator[Entry]:
    """The values under a key: a section that is given as a mapping is taken apart, and its other keys stay."""
    _check_key(key, origin)
    if not _is_section(key):
        if isinstance(value, Mapping):
            raise ConfigError(f"{origin}: '{'.'.join(key)}' takes a value, and has no keys of its own.")
        yield key, value, origin
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves((*key, str(name)), inner, origin)
    elif value is not None:
        raise ConfigError(
            f"{origin}: '{'.'.join(key)}' is a section and takes no value of its own.",
            f"Its keys are: {_key_list(key)}.",
        )


def _parse_value(text: str, origin: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"{origin}: '{text}' is not a valid YAML value; put quotes around it.") from None


def _is_section(key: Key) -> bool:
    return key in _FREE or _section(key) is not None


def _key_list(key: Key) -> str:
    model = _section(key)
    return "the names of dynamic dimensions, as in `batch: 4`" if model is None else ", ".join(model.model_fields)


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
            if key[:depth] in _FREE:
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
    places: dict[str, list[str]] = {}
    for key in iterate_keys():
        places.setdefault(key[-1], []).append(f"'{'.'.join(key)}'")
    close = difflib.get_close_matches(name, places, n=1, cutoff=0.75)
    return f" Did you mean {' or '.join(places[close[0]])}?" if close else ""


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
    return f"{place}'{'.'.join(location)}' is {_REPR.repr(details['input'])}: {message[:1].lower()}{message[1:]}."
