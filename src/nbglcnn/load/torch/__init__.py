"""PyTorch modules as Graphs: a run under hooks is recorded, rewritten and translated."""
