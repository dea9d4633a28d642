"""PyTorch modules as drafts: run under hooks, exported, calls matched with what the export gave."""
