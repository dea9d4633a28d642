"""What users give as a network's input, as arrays of its shape and type."""
