"""Mirrors the tree; a package, so that nobody else's `tests` in site-packages can stand in for it."""
