"""Images that remember what is asked of them: JPEG files that the user's own code opens with Pillow."""
