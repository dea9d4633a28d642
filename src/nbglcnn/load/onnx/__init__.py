"""ONNX files as drafts: read with care, checked against the operators' schemas, converted."""
