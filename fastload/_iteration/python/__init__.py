"""Batches made by Python, in threads or by the caller, and what worker processes have in common with them."""
