"""Wire messages, with the generated code beside their definitions."""
