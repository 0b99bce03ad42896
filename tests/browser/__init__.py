"""The page of `extproc watch` in a real browser: `make test-browser`."""
