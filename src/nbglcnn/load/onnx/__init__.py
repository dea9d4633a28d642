"""Reading ONNX files into drafts: safely, with schema checks and conversions."""
