"""Threads of this process instead of torch's worker processes, for everything that runs in Python."""
