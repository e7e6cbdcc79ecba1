"""Batches made by worker processes that run the user's Python, as torch's do."""
