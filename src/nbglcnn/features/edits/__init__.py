"""Edits of a running network: bends, injected and frozen values. Data only; the Plan is fixed."""
