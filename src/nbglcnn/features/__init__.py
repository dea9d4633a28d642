"""The features of a Viewer, one folder each."""
