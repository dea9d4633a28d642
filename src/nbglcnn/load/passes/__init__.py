"""Passes from a draft to a Graph: upgrade old operators, decompose, fold constants."""
