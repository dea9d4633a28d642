"""Code for single notebook hosts, with private names of ipykernel and marimo."""
