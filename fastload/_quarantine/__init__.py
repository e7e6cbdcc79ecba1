"""Bad samples: what replaces them, the ledger, and when a run has too many."""
