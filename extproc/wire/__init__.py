"""Envoy's external-processing messages: a wire-compatible subset, generated from `protos/`."""
