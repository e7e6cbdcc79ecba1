"""The plan of a loader: who makes its batches, and the verdicts that explain() prints."""
