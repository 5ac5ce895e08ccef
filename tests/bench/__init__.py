"""What the proxy costs: `make bench`. Ratios within one run count, not the figures of one machine."""
