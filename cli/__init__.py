"""The `whosegpu` command: every verb that a person types."""
