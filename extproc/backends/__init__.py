"""HTTP to the backends, and what they report of their models."""
