"""Mirroring: a Viewer follows a training in PyTorch."""
