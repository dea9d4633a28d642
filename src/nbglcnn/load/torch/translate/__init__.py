"""Translation of recorded operators to ONNX."""
