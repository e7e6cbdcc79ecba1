"""Threads of this process in the place of torch's worker processes, for whatever runs in Python."""
