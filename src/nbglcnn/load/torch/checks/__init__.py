"""Runs of copies that show what a graph doesn't: the batch, the input's numbers, training."""
