"""Pillow as the reference decoder: the only importer of PIL, its threads and its errors."""
