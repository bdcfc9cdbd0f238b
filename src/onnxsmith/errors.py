"""Every error that onnxsmith raises on purpose.

OnnxsmithError                  exit code 2 unless it says otherwise
├── UserError                   exit code 1: the input, the configuration or the machine is at fault
│   ├── ConfigError             a key or a value in the configuration
│   ├── ModelError              the model
│   │   ├── ModelFileError      not there, not readable, not ONNX
│   │   ├── InvalidModelError   ONNX, but it breaks a rule of the format
│   │   └── ExternalDataError   its weights are missing, too short, or outside its folder
│   ├── TensorError             an input: name, shape, dtype or value
│   ├── PassError               a pass or a pipeline that there is not, or an option that does not fit
│   ├── ExportError             a module or an estimator that does not export
│   ├── OutputError             a file or folder that cannot be written
│   ├── MissingExtraError       an optional dependency is not installed
│   └── RuntimeFailure          the runtime refused the model, or failed while it ran
│       ├── ChildTimeoutError   it ran past its time limit
│       ├── ChildMemoryError    it ran past its memory limit
│       └── ChildCrashError     native code died
└── InternalError               a fault of onnxsmith itself
"""

from __future__ import annotations


class OnnxsmithError(Exception):
    """The base of every error here.

    Attributes:
        message: What is wrong, with the file, node or key it is about.
        hint: What to do about it, or None.
        exit_code: What the command line exits with.
    """

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n{self.hint}"


class UserError(OnnxsmithError):
    """Something the caller can mend."""

    exit_code = 1


class ConfigError(UserError):
    """The configuration has an unknown key or a value that does not fit."""


class ModelError(UserError):
    """The model cannot be used."""


class ModelFileError(ModelError):
    """The model's file is missing, unreadable, or not ONNX."""


class InvalidModelError(ModelError):
    """The file is ONNX, but the model in it is invalid."""


class ExternalDataError(ModelError):
    """External data is missing, too short, or outside the model's folder."""


class TensorError(UserError):
    """An input tensor does not fit the model."""


class PassError(UserError):
    """A pass or a pipeline is unknown, cannot be loaded, or has an option that does not fit."""


class ExportError(UserError):
    """A module or an estimator could not be exported."""


class OutputError(UserError):
    """A result could not be written."""


class MissingExtraError(UserError):
    """An optional dependency is needed and not installed."""


class RuntimeFailure(UserError):  # noqa: N818 - the runtime's failure, not ours
    """A runtime refused the model or failed while it ran."""


class ChildTimeoutError(RuntimeFailure):
    """A child process ran past its time limit."""


class ChildMemoryError(RuntimeFailure):
    """A child process ran past its memory limit."""


class ChildCrashError(RuntimeFailure):
    """Native code in a child process died."""


class InternalError(OnnxsmithError):
    """A fault of onnxsmith itself."""
