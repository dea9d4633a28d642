"""A run of a module as a graph of ATen operators, with the calls of its modules."""
