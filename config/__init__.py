"""The settings of all services: frozen models, one loader, shipped examples. A leaf: imports nothing else of ours."""
