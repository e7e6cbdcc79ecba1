"""GaussianBlur, which is native only where torch was seen to compute in the same way."""
