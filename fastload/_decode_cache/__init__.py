"""What loaders keep of the images they decode, so that they cost less the next time."""
