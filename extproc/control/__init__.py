"""What keeps a running gateway up to date: files that are watched, and what is published to Envoy."""
