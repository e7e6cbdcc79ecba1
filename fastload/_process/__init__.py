"""The process: its exit, its processors and ranks, its limits, and the base of the iterators."""
