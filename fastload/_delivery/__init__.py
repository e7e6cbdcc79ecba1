"""Where batches are written, and their way to a device and into the hands of the user."""
