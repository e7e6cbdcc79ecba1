"""The plan of a loader: what makes its batches, and the verdicts that explain() prints."""
