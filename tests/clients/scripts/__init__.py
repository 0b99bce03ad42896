"""Programs that do the errand with a library; `tests.clients.library` runs them."""
