"""Deferred images: JPEG files that the user's own code opens with Pillow or OpenCV, decoded natively on demand."""
