"""How the batches of a loader are made: what was found of it, and the plans that follow."""
