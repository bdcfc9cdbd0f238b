"""ONNX Runtime sessions: inference, execution providers, benchmark, profile."""
