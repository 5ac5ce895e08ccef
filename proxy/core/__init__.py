"""What the proxy decides: pure functions over bytes and values."""
