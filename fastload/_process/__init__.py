"""The process: its exit, signals, processors, ranks, limits and clocks."""
