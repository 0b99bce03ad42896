# `make run` sets up and runs the gateway; `make test` sets up and passes the tests.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: run test lint protos clean

# The virtual environment is remade when the dependencies or their pinned versions change.
$(VENV)/.ready: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

test: $(VENV)/.ready
	@$(BIN)/pytest

lint: $(VENV)/.ready
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

# The generated code is committed, so that installing needs no protoc; a test fails when it is stale.
protos: $(VENV)/.ready
	@$(BIN)/python -m tests.generate_protos

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
