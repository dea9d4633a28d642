"""Arguments as arrays of the network's input shapes and types."""
