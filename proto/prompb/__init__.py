"""Prometheus remote write 1.0, under a package name of our own."""
