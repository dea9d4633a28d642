"""Edits of a running network: bends, injected and frozen values. Plain data; the Plan stays."""
