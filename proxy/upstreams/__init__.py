"""What stands at the end of a lane: a store behind HTTP, or a file of our own."""
