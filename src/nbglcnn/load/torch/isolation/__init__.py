"""The copy of a module that runs, and what is changed of PyTorch and the process meanwhile."""
