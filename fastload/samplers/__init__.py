"""Index batches from torch's samplers."""
