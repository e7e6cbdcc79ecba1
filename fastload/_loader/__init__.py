"""fastload.DataLoader: its arguments, what counts of them now, and what it keeps between iterations."""
