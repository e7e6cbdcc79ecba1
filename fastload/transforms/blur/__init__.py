"""GaussianBlur, which is native only if torch was seen to compute in the same way."""
