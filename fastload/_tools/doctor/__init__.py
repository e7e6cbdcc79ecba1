"""The reason why training waits: measures a loader, finds its limit, tries a change and measures again."""
