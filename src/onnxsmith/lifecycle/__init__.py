"""The whole lifecycle in one call, and its report."""

from onnxsmith.lifecycle.pipeline import run_lifecycle
from onnxsmith.lifecycle.records import LifecycleReport, SubjectReport

__all__ = ["LifecycleReport", "SubjectReport", "run_lifecycle"]
