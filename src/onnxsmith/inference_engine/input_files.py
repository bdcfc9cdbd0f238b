"""Inputs from files and from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxsmith.config import InferenceConfig
from onnxsmith.errors import OutputError, TensorError
from onnxsmith.extras import require
from onnxsmith.model import TensorSpec, staged_folder
from onnxsmith.records import did_you_mean

_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")


def read_inputs(texts: Sequence[str], specs: Iterable[TensorSpec], config: InferenceConfig) -> dict[str, Any]:
    """Reads the inputs that a user named.

    Args:
        texts: `name=VALUE`, where VALUE is a .npy file, an image, or JSON (`sr=16000`, `text=["a", "b"]`); or a .npz
            file that holds several by name. With one input, its name may be left out.
        specs: What the model asks for.
        config: `image_mean` and `image_std` normalise an image.

    Returns:
        Values by input name.

    Raises:
        TensorError: A file that cannot be read, or a value that is no JSON.
    """
    by_name = {spec.name: spec for spec in specs}
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or (name not in by_name and Path(text).is_file()):
            name, value = "", text
        if not name and value.endswith(".npz"):
            values.update(_load_npz(Path(value)))
            continue
        if not name:
            if len(by_name) != 1:
                raise TensorError(
                    f"--input {text}: the model has {len(by_name)} inputs; say which one: --input NAME={value}.",
                    f"Its inputs are: {', '.join(by_name)}.",
                )
            name = next(iter(by_name))
        if name not in by_name:
            raise TensorError(
                f"--input {text}: the model has no input '{name}'.{did_you_mean(name, by_name)}",
                f"Its inputs are: {', '.join(f'{key}: {spec}' for key, spec in by_name.items())}.",
            )
        values[name] = _read_value(value, by_name[name], config)
    return values


def _read_value(text: str, spec: TensorSpec, config: InferenceConfig) -> Any:
    path = Path(text)
    if path.suffix == ".npy":
        return load_array(path)
    if path.suffix.lower() in _IMAGES:
        return read_image(path, spec, config)
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        if spec.dtype != "string":
            raise TensorError(
                f"--input {spec.name}={text}: neither a .npy file, nor an image, nor JSON.",
                "Write numbers as JSON: 16000 or [[1, 2], [3, 4]].",
            ) from None
        value = [text]
    return value


def load_array(path: Path) -> np.ndarray[Any, Any]:
    """Reads a .npy file.

    Raises:
        TensorError: It is not there, or not a NumPy array without objects in it.
    """
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except FileNotFoundError:
        raise TensorError(f"{path}: there is no such file.") from None
    except (OSError, ValueError, EOFError) as error:
        raise TensorError(
            f"{path}: cannot be read as a NumPy array: {error}.",
            "Object arrays are pickles and are refused; save strings with a fixed width: array.astype(str).",
        ) from None


def _load_npz(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    import zipfile

    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise TensorError(f"{path}: there is no such file.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise TensorError(f"{path}: cannot be read as a NumPy archive: {error}.") from None


def read_image(path: Path, spec: TensorSpec, config: InferenceConfig) -> np.ndarray[Any, Any]:
    """Reads an image for an input of rank 4.

    It is resized (bilinear) to the input's height and width where these are fixed. For an input of floating point,
    pixels are scaled to 0…1 and, with three channels, normalised: (pixel - mean) / std.

    Args:
        path: The image.
        spec: The input, [batch, channels, height, width] or [batch, height, width, channels].
        config: `image_mean` and `image_std`, one value a channel.

    Returns:
        An array of the input's dtype, its batch 1.

    Raises:
        TensorError: The input is not of an image's shape, or the file is not an image.
        MissingExtraError: Pillow is not installed.
    """
    image_module = require("PIL.Image", purpose="to read images")
    shape = spec.shape
    if shape is None or len(shape) != 4:
        raise TensorError(f"{path}: an image needs an input of rank 4; '{spec.name}' is {spec}.")
    last = shape[1] not in (1, 3, 4) and shape[3] in (1, 3, 4)
    channels, height, width = (shape[3], shape[1], shape[2]) if last else (shape[1], shape[2], shape[3])
    try:
        with image_module.open(path) as image:
            picture = image.convert({1: "L", 4: "RGBA"}.get(channels if isinstance(channels, int) else 3, "RGB"))
    except FileNotFoundError:
        raise TensorError(f"{path}: there is no such file.") from None
    except (OSError, ValueError, image_module.DecompressionBombError) as error:
        raise TensorError(f"{path}: cannot be read as an image: {error}.") from None
    size = (width if isinstance(width, int) else picture.width, height if isinstance(height, int) else picture.height)
    pixels = np.asarray(picture.resize(size, image_module.Resampling.BILINEAR))
    pixels = pixels.reshape(size[1], size[0], -1)
    if not np.issubdtype(np.dtype(spec.dtype), np.integer):
        pixels = pixels / 255.0
        if pixels.shape[-1] == 3:
            pixels = (pixels - np.array(config.image_mean)) / np.array(config.image_std)
    return np.asarray((pixels if last else pixels.transpose(2, 0, 1))[None], spec.dtype)


def save_outputs(path: Path, outputs: Mapping[str, Any]) -> None:
    """Saves the outputs of a run as a .npz file, strings with a fixed width; element types that NumPy lacks as float32.

    Raises:
        OutputError: It cannot be written, or an output is a sequence or a map, which a .npz file cannot hold.
    """
    arrays: dict[str, Any] = {}
    for name, value in outputs.items():
        if not isinstance(value, np.ndarray):
            raise OutputError(f"{path}: output '{name}' is a {type(value).__name__}; a .npz file holds arrays only.")
        if value.dtype.kind == "O":
            arrays[name] = value.astype(str)
        else:
            arrays[name] = value.astype(np.float32) if value.dtype.kind == "V" else value
    with staged_folder(path.absolute().parent) as staging, (staging / path.name).open("wb") as file:
        np.savez(file, **arrays)
