"""Recorded operators as ONNX's."""
