"""Feature maps as pictures."""
