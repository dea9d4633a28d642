"""A module's weights: as state_dict, initialized by its own code, and as snapshots."""
