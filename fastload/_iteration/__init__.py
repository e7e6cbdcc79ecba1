"""One epoch: the iterators, the makers of batches below them, and where a saved state resumes."""
