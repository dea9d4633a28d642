"""Export of a Viewer as one HTML page that runs offline."""
