"""Two networks, or two inputs of one, layer by layer."""
