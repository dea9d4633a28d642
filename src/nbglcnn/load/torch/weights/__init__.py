"""A module's parameters and buffers: as a state_dict, drawn by its own code, as snapshots."""
