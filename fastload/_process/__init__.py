"""What belongs to the process: its exit, its processors and ranks, its limits, and what an iterator begins with."""
