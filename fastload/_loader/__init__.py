"""fastload.DataLoader: its arguments, what they mean together, and what it keeps between epochs."""
