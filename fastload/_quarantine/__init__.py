"""What becomes of samples that cannot be loaded, where they shall not end the run."""
