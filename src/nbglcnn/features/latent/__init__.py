"""Latents: a network cut at a layer whose value a reader moves."""
