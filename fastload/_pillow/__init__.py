"""Pillow: the reference decoder, the threads that run it for the engine, and what its errors come to."""
