"""A run of a module recorded as a graph of ATen operators with its module calls."""
