"""Passes over a recorded program, before it is translated."""
