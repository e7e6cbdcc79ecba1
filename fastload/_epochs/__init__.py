"""Where an epoch stands, whoever makes its batches: its states, and the iterator that begins at one."""
