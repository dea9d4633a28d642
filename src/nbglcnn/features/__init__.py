"""What a Viewer can do besides showing its network: one folder a feature."""
