"""Replay of edits on a module: by hooks, and in its recorded graph."""
