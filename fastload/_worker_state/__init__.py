"""What a worker thread has for itself, as a worker process has it by the fork that makes it."""
