"""What makes a draft concrete: older forms rewritten, composites decomposed, constants folded."""
