"""Adapters for notebook hosts; the package that uses private names of ipykernel and marimo."""
