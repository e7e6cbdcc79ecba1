"""Bad samples: their substitutes, the ledger, and the limit at which a run ends."""
