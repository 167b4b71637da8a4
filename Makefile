# make help says what there is. Nothing but python3 (3.11 or newer) and make has to be installed.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
# The suite starts hundreds of processes: without compiled modules, each would compile Airflow again.
unexport PYTHONDONTWRITEBYTECODE
# More workers than cores: tests of live Airflows and of outages mostly wait.
PARALLEL := -n 5 --dist loadfile
# The newest Airflow is the one to work with.
CONSTRAINTS := constraints/airflow-3.3.txt
# What the unit and contract tests need besides the package.
LOWEST_TOOLS := apache-airflow-providers-openlineage apache-airflow-providers-postgres apache-airflow-providers-sqlite \
	fastparquet hypothesis junitparser polars pytest pytest-asyncio pytest-timeout pytest-xdist python-docx python-pptx

.PHONY: help
help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(STAMP) ## Create .venv with the package and everything its tests need

# pip installs uv, uv the rest, many times faster; where uv cannot (it does not read pip's settings), pip does.
# Nothing is compiled here: half of the modules are never imported. Tests compile the others when they import them.
$(STAMP): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"Python 3.11 or newer is needed, %s is %s: make venv PYTHON=python3.12" \
		% (sys.executable, sys.version.split()[0]))'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c $(CONSTRAINTS) uv || true
	$(BIN)/uv pip install -q --python $(BIN)/python -c $(CONSTRAINTS) -e '.[dev]' \
		|| $(BIN)/python -m pip install -q --disable-pip-version-check --no-compile -c $(CONSTRAINTS) -e '.[dev]'
	@touch $@

.PHONY: check
check: lint types workflows ## Formatting, lint, spelling, types, layers, workflows, known vulnerabilities

.PHONY: lint
lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(BIN)/lint-imports
	$(BIN)/python -m tests.audit

.PHONY: types
types: venv
	nice $(BIN)/mypy

.PHONY: workflows
workflows: venv ## Lint GitHub's workflows, dependabot.yml and the Dockerfile, offline
	$(BIN)/actionlint .github/workflows/*.yml
	$(BIN)/zizmor --offline --no-progress --quiet .github
	$(BIN)/hadolint deploy/Dockerfile

# The checks take what the tests leave of the cores.
.PHONY: test
test: venv ## What a contributor runs: the checks, and all tests without a real Airflow or a browser
	@$(MAKE) --no-print-directory -j3 suite types lint workflows

# Every commit of a ledger waits for the disk, so temporary files are in memory if it has room and runs programs.
IN_MEMORY = memory=$$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 8e6 {print $$6}'); \
	if [ -n "$$memory" ] && ! grep -q " $$memory .*noexec" /proc/mounts; then \
		export TMPDIR=$$(mktemp -d "$$memory/tests.XXXXXX"); chmod 755 "$$TMPDIR"; trap 'rm -rf "$$TMPDIR"' EXIT; \
	fi;
PYTEST := $(BIN)/pytest -q

.PHONY: suite
suite: $(COMPILED)
	@$(IN_MEMORY) $(PYTEST) $(PARALLEL) -m "not system and not nightly"

# Once for each .venv, this compiles all test modules and what they import. Otherwise each of pytest's workers would, at
# the same time.
$(COMPILED): $(STAMP)
	@$(PYTEST) --collect-only >/dev/null 2>&1 || true  # the tests themselves say what is wrong
	@touch $@

# The tests of tests/system share one Airflow, so they run in one process, beside the others.
.PHONY: system
system: $(COMPILED) browser ## One live Airflow, PostgreSQL, a browser, killed processes
	@$(MAKE) --no-print-directory -j2 system-airflow system-others

.PHONY: system-airflow
system-airflow: venv
	@$(IN_MEMORY) $(PYTEST) -m "system and not nightly" tests/system

.PHONY: system-others
system-others: venv
	@$(IN_MEMORY) $(PYTEST) -n 2 --dist loadfile -m "system and not nightly" --ignore tests/system

# Each part also runs alone.
.PHONY: nightly
nightly: slow simulate cluster-test loaders matrix lowest ## The rest: simulations, gateways, a cluster, all versions

.PHONY: slow
slow: venv browser gateways ## What is expensive and rarely fails: gateways, tasks as in pods, benchmarks, large inputs
	@$(IN_MEMORY) $(PYTEST) $(PARALLEL) -m nightly

# Only where it is missing, and only as root: elsewhere the tests that need it say what to install.
.PHONY: browser
browser: ## Install the browser in which the UI is tested (Debian)
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null \
		|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
			&& apt-get update -qq \
			&& DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium chromium-driver; } \
		|| echo "make browser: install chromium and chromedriver by hand" >&2

# As the browser: only where one is missing, and only as root.
.PHONY: gateways
gateways: ## Install the gateways behind which loads are tested (Debian)
	@export PATH="$$PATH:/usr/sbin"; { command -v haproxy && command -v nginx && command -v squid; } >/dev/null \
		|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
			&& apt-get update -qq \
			&& DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends haproxy nginx-light squid; } \
		|| echo "make gateways: install haproxy, nginx and squid by hand" >&2

# As the browser: only where it is missing, and only as root.
.PHONY: pgbouncer
pgbouncer:
	@command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] \
		|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
			&& apt-get update -qq \
			&& DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends pgbouncer; } \
		|| echo "make pgbouncer: install pgbouncer by hand" >&2

.PHONY: bench
bench: venv ## Measure loads, batches, exports and evaluations against other ways, some 15 minutes; wants an idle machine
	$(BIN)/python -m tests.benchmarks

# On a virtual clock; the same nights every time.
NIGHTS ?= 10000
.PHONY: simulate
simulate: venv ## Hold every operation against its promises in NIGHTS generated nights of odd replies, kills and outages
	ASSISTANT_TEST_NIGHTS=$(NIGHTS) $(PYTEST) -n 2 --dist load tests/simulate

.PHONY: examples
examples: venv ## Generate new examples for the tests that have them
	$(PYTEST) $(PARALLEL) --hypothesis-profile=random -m "hypothesis and not nightly"

# The last three runs have the live Airflows as well. Each run prints its seed.
.PHONY: flaky
flaky: venv browser ## Find tests that fail by chance: 13 runs in random order beside busy loops; two and a half hours
	@trap 'kill $$(jobs -p)' EXIT; code=0; \
	for loop in 1 2; do while :; do :; done & done; \
	for run in {1..13}; do \
		marks="not nightly$$([ $$run -gt 10 ] || echo " and not system")"; \
		$(PYTEST) -n 8 --dist loadfile -p randomly -m "$$marks" || code=1; \
	done; exit $$code

.PHONY: docs
docs: venv ## Build the documentation's site in build/docs/html; a warning is an error
	$(BIN)/python docs/site/build_site.py

# The wheel is installed, with the constraints, into an environment that holds nothing else. The main component takes its
# version from the wheel, because pyproject.toml has none.
.PHONY: sbom
sbom: venv ## Write build/sbom, a CycloneDX list of the wheel and all it requires; WHEEL=dist/x.whl: of that wheel
	@work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; wheel='$(WHEEL)'; \
	if [ -z "$$wheel" ]; then $(BIN)/python -m build --outdir "$$work"; wheel=$$(echo "$$work"/*.whl); fi; \
	$(PYTHON) -m venv --without-pip "$$work/venv"; \
	$(BIN)/uv pip install -q --python "$$work/venv/bin/python" -c $(CONSTRAINTS) "$$wheel" \
		|| $(BIN)/python -m pip --python "$$work/venv/bin/python" install -q -c $(CONSTRAINTS) "$$wheel"; \
	sed "s/^dynamic = .*/version = \"$$(basename "$$wheel" | cut -d- -f2)\"/" pyproject.toml >"$$work/pyproject.toml"; \
	$(PYTHON) -m venv "$$work/tool"; \
	"$$work/tool/bin/python" -m pip install -q --disable-pip-version-check -c $(CONSTRAINTS) cyclonedx-bom; \
	mkdir -p build/sbom; \
	"$$work/tool/bin/cyclonedx-py" environment --output-reproducible --mc-type library --pyproject "$$work/pyproject.toml" \
		-o build/sbom/airflow-provider-assistant.cdx.json "$$work/venv"

# Redis as the browser: only where it is missing, and only as root.
.PHONY: redis
redis:
	@command -v redis-server >/dev/null \
		|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
			&& apt-get update -qq \
			&& DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends redis-server; } \
		|| echo "make redis: install redis-server by hand" >&2

# Only this target needs Celery, so only it installs it.
CLUSTER_STAMP := $(VENV)/.cluster
$(CLUSTER_STAMP): $(STAMP)
	$(BIN)/uv pip install -q --python $(BIN)/python -c $(CONSTRAINTS) -e '.[cluster]' \
		|| $(BIN)/python -m pip install -q --disable-pip-version-check -c $(CONSTRAINTS) -e '.[cluster]'
	@touch $@

.PHONY: loaders
loaders: venv ## The documents of LangChain, LlamaIndex, Haystack and dlt, as sources
	$(BIN)/uv pip install -q --python $(BIN)/python --target build/loaders -c $(CONSTRAINTS) \
		dlt haystack-ai langchain-core llama-index-core
	PYTHONPATH=build/loaders $(BIN)/pytest -q tests/loaders

.PHONY: cluster-test
cluster-test: $(CLUSTER_STAMP) redis ## The system tests on a Celery cluster
	$(BIN)/pytest -q -s tests/cluster

.PHONY: demo
demo: venv ## Run the example DAGs on a real Airflow against the embedded service; DEGRADED=1: the service gets worse
	$(BIN)/python -m tests.live.demo $(if $(DEGRADED),--degraded)

.PHONY: up
up: venv ## The demo, then Airflow and the service stay until Ctrl-C
	$(BIN)/python -m tests.live.demo --keep

# Where pyenv keeps the Pythons, all of them are to be found, not only the one that is in use.
.PHONY: matrix
matrix: venv ## What differs between Airflows and Pythons, on every pair, some 4 minutes each; PAIR=py312-airflow32: only that
	@code=0; PYENV_VERSION=$$(pyenv versions --bare 2>/dev/null | paste -sd:) $(BIN)/tox run $(if $(PAIR),-e $(PAIR)) || code=$$?; \
	$(BIN)/python -m tests.matrix.table; \
	echo "make matrix: the results are in docs/reference/compatibility.md"; exit $$code

# On the lowest Python. The tools of the tests are not pinned: only the package's own dependencies are tested here.
LOWEST := .lowest
.PHONY: lowest
lowest: venv ## Run the unit and contract tests with the lowest declared version of every dependency, some 10 minutes
	PYENV_VERSION=$$(pyenv versions --bare 2>/dev/null | paste -sd:) \
		$(BIN)/uv venv -q --clear --no-python-downloads --python 3.11 $(LOWEST)
	$(BIN)/python -m tests.lowest >$(LOWEST)/pins.txt
	$(BIN)/uv pip install -q --python $(LOWEST)/bin/python -c $(LOWEST)/pins.txt \
		-e '.[evaluation,files,pandas,sandbox,warehouse,website]' $(LOWEST_TOOLS)
	$(BIN)/uv pip check -q --python $(LOWEST)/bin/python
	$(LOWEST)/bin/python -m pytest -q -n 2 tests/unit tests/contract

# The lowest Python decides; the others may only add what they alone need. Airflow 3.1 requires a Python below 3.14.
.PHONY: constraints
constraints: ## Resolve the constraints of every Airflow anew, from constraints/*.in; LINES=3.4: only that
	@work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
	for line in $(or $(LINES),3.1 3.2 3.3 3.4); do \
		rm -f "$$work"/*; last=3.14; [ $$line != 3.1 ] || last=3.13; \
		for python in 3.11 3.12 3.13 3.14; do \
			$(BIN)/uv pip compile -q --no-header --no-annotate --no-emit-index-url --upgrade \
				--python-version $$python --extra dev --extra release --extra cluster --no-emit-package airflow-provider-assistant \
				-c <(cat "$$work"/*.txt 2>/dev/null) -o "$$work/$$python.txt" \
				pyproject.toml constraints/airflow-$$line.in; \
			[ $$python != $$last ] || break; \
		done; \
		{ echo "# Versions the tests run with on Airflow $$line, Python 3.11 to $$last. \`make constraints\` resolves anew."; \
		  LC_ALL=C sort -u "$$work"/*.txt; } >constraints/airflow-$$line.txt; \
	done

.PHONY: clean
clean: ## Remove .venv, .lowest, .tox, the demo's files, caches and builds
	rm -rf $(VENV) $(LOWEST) .tox .demo .airflow-test build dist .coverage .hypothesis .mypy_cache .pytest_cache \
		.ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
