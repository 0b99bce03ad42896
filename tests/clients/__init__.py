"""Real clients, as their users run them, at tasks of several turns: `make test-clients`."""
