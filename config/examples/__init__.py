"""Configuration files to start from; each loads as it is."""
