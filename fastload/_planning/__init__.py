"""The plan of a loader: how its batches are made, and the verdicts that explain() prints."""
