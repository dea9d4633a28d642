"""Edits replayed on a module: by hooks, and in the graph that was recorded."""
