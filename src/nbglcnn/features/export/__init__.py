"""A Viewer as one HTML page that runs offline."""
