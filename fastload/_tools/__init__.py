"""Functions that look at a loader from outside: benchmark, verify and doctor."""
