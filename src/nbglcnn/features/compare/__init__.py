"""Comparison of two networks, or of two inputs of one, layer by layer."""
