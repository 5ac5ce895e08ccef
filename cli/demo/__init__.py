"""`whosegpu demo`: a simulated cluster, its exporters and a sender, before a real proxy with real embedded storage."""
