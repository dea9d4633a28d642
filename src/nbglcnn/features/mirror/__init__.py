"""A training in PyTorch that a Viewer follows."""
