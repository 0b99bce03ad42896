"""What holds docs/openapi.yaml and the gateway together: the document as validators, and data that is drawn from it."""
