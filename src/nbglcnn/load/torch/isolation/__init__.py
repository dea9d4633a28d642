"""The copy of a module that runs in its place, and the process state while it runs."""
