"""The Plan: the passes, textures and values of a compiled network, as data."""
