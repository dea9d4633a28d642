"""Latents: codes in the place of a layer's value."""
