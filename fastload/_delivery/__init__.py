"""The memory of batches, and their way to a device and to the user."""
