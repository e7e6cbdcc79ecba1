"""Data kept from decoded images, in memory and in stores on disk."""
