"""Notebook applications and what is special in each, with private names of ipykernel and marimo."""
