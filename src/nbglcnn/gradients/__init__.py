"""Gradients of a Graph, as further nodes of that Graph."""
