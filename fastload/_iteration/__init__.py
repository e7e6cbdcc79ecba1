"""One epoch: the iterators, the makers of their batches, and saved states."""
