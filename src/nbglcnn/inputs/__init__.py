"""Conversion of arguments to arrays of the network's input shapes and types."""
