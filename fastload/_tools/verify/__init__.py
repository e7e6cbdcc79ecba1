"""Whether two loaders give the same batches, bit for bit, and where not, what they differ by as far as it is proved."""
