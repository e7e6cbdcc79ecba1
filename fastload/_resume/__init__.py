"""Saved states: their layout, the generators in them, and the checks before one is loaded."""
