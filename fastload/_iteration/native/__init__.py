"""Batches made by native code: the engine and the iterator over its batches."""
