"""The remote-write proxy: a receiver in front, a sender behind."""
