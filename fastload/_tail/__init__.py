"""The Python tail: batches whose samples are begun by native code and ended by the user's own Python, in threads."""
