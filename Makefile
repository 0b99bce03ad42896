# `make run` sets up and runs the gateway; `make test` sets up and passes the tests.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: run test test-clients test-image test-vllm lint protos clean

# Done again when the dependencies or their pinned versions change.
$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	@echo "Setting up $(VENV) ..."
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# A model of its own, played by a script, unless told otherwise: make run BACKEND=http://host:8000 MODEL=name
BACKEND ?=
MODEL   ?=
LISTEN  ?=
METRICS ?=
run: $(VENV)/.ready
	@$(BIN)/extproc up $(if $(LISTEN),--listen $(LISTEN)) $(if $(METRICS),--metrics $(METRICS)) $(if $(BACKEND),--backend $(BACKEND),--scripted) $(if $(MODEL),--model $(MODEL))

# Two files at a time: most tests wait for a process more than they work.
test: $(VENV)/.ready
	@$(BIN)/pytest --numprocesses 2 --dist loadfile

# A real vLLM on the CPU with a real model; the first time it downloads some 3 GB, which stay outside the checkout.
test-vllm: $(VENV)/.ready
	@$(BIN)/python -m tests.real_vllm.setup
	@$(BIN)/pytest -m vllm tests/real_vllm

# Real clients, from npm and PyPI; the first time it downloads some 500 MB, which become 1.5 GB outside the checkout.
test-clients: $(VENV)/.ready
	@$(BIN)/python -m tests.clients.setup
	@$(BIN)/python -m tests.clients.offline $(BIN)/pytest -m clients tests/clients

# What the image installs, installed as the Dockerfile has it: some 20 seconds and 80 MB from PyPI, which don't stay.
test-image: $(VENV)/.ready
	@$(BIN)/pytest tests/pods/image.py

lint: $(VENV)/.ready
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

# The generated code is committed, so that installing needs no protoc; a test fails when it is stale.
protos: $(VENV)/.ready
	@$(BIN)/python -m tests.generate_protos

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
