"""Saved states of a loader: how they are laid out, and what is checked of one that is loaded."""
