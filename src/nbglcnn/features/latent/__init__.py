"""Latents: codes that replace a layer's value."""
