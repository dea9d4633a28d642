"""Checks by extra runs, for facts that a graph doesn't show: batch, input values, training."""
