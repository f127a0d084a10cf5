# Everything here sets itself up: a machine needs only make and Python 3.11 or newer.
# PYTHON=/path/to/python chooses the interpreter; ARGS="..." is handed on to the command.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help up test test-all test-postgres faults mutants packages fuzzer lint style format bench lock sbom clean

# What was compiled is kept, whatever the environment says: the tests start some hundred processes.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.timebell-ready
PIP := $(BIN)/python -m pip --disable-pip-version-check

# A tree that was copied or moved would still run the code it came from, so its environment does not count as ready.
$(shell grep -qsF "$(CURDIR)/$(VENV)" $(VENV)/pyvenv.cfg || rm -f $(READY))

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-10s %s\n", $$1, $$2 }'

up: $(READY) ## Run Timebell on its own PostgreSQL
	exec $(BIN)/timebell up $(ARGS)

# Two things at once, because the first run on a machine has to fetch and install, and each waits for others most of the
# time. The types are looked at beside the tests, and what is wrong with them is told as soon as it is known. Four tests
# at once on two processors: some wait for processes of their own.
define TESTS
@$(MAKE) --no-print-directory -j 2 style packages
@mkdir -p build
@{ $(BIN)/mypy >build/mypy.txt 2>&1 || { cat build/mypy.txt; exit 1; }; } & types=$$!; \
	status=0; \
	$(BIN)/python -m pytest -n 4 --dist worksteal $(1) $(ARGS) || status=$$?; \
	wait $$types || { echo "mypy refuses it: build/mypy.txt" >&2; status=1; }; \
	exit $$status
endef

test: ## Run the checks and every test that is not slow
	$(call TESTS,-m "not slow")

test-all: fuzzer ## Run the checks and every test, the slow ones too
	$(call TESTS)

# The versions that are promised besides the one of the wheel, as far as Debian has them. None is started as a service:
# each process of the run has a server of its own, and each test a database.
POSTGRES := 15 16 17

test-postgres: $(READY) ## Run the tests of store, engine and migrations on each other PostgreSQL that Debian has
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		for version in $(POSTGRES); do \
			[ ! -x /usr/lib/postgresql/$$version/bin/postgres ] && apt-cache show postgresql-$$version >/dev/null 2>&1 || continue; \
			mkdir -p /etc/postgresql-common; \
			[ -e /etc/postgresql-common/createcluster.conf ] || \
				echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf; \
			DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
				apt-get install -qq --no-install-recommends postgresql-$$version >/dev/null; \
		done; \
	fi; \
	status=0; ran=; \
	for version in $(POSTGRES); do \
		programs=/usr/lib/postgresql/$$version/bin; \
		[ -x $$programs/postgres ] || { echo "PostgreSQL $$version is not here and is not tried"; continue; }; \
		echo "PostgreSQL $$version"; ran=yes; \
		PYTEST_TIMEBELL_POSTGRES=$$programs $(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow" \
			tests/store tests/engine tests/migration --ignore=tests/store/embedded $(ARGS) || status=1; \
	done; \
	[ -n "$$ran" ] || { echo "There is no other PostgreSQL here; install postgresql-15" >&2; exit 1; }; \
	exit $$status

# With --resume it goes on where a run of this commit was cut off, so that the table can be made in several, each perhaps of
# a part (ARGS="--resume -k proxy"). What fails stands in the table too; a part without --resume is shown and replaces nothing.
FAULTS := $(if $(if $(findstring --resume,$(ARGS)),,$(ARGS)),build/faults-part.jsonl,build/faults.jsonl)

faults: $(READY) packages ## Kill, stop and starve real processes, and write what came of it to docs/explanation/faults.md
	mkdir -p build
	$(if $(findstring --resume,$(ARGS)),,rm -f $(FAULTS))
	status=0; \
	FAULTS_RESULTS=$(CURDIR)/$(FAULTS) $(BIN)/python -m pytest tests/acceptance/faults $(ARGS) || status=$$?; \
	$(if $(filter build/faults.jsonl,$(FAULTS)),$(BIN)/python -m tests.acceptance.faults.results $(FAULTS),cat $(FAULTS)); \
	exit $$status

mutants: $(READY) ## Plant faults in copies of the tree, and see that tests notice each (ARGS="-k expiry" for some)
	$(BIN)/python -m tests.mutants $(ARGS)

# What tests need besides. Without it they say what is missing and are skipped, so this never fails, and does not wait
# long where nothing can be fetched. Debian starts what it installs, unless the run level says that the machine is not in
# use.
PACKAGES := pgbouncer faketime prometheus chromium rabbitmq-server

packages: ## Install the Debian packages that some tests need (root only)
	@missing=; \
	for package in $(PACKAGES); do \
		dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; \
	done; \
	[ -n "$$missing" ] || exit 0; \
	apt="env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20"; \
	install="$$apt -o DPkg::Lock::Timeout=300 install --no-install-recommends$$missing"; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing$$missing"; \
		$$install >/dev/null 2>&1 || { $$apt update && $$install; } >/dev/null 2>&1 && exit 0; \
	fi; \
	echo "Tests that need these are skipped; install as root:$$missing" >&2

# As with the packages, whoever cannot have it goes without. What is built from sources would need a compiler.
fuzzer: $(READY) ## Install the fuzzer that one slow test needs
	@$(BIN)/python -c "import atheris" 2>/dev/null || \
		$(PIP) install --quiet --no-deps --only-binary :all: --require-hashes -r tests/fuzzer.lock 2>/dev/null || \
		echo "The test that needs atheris is skipped: it could not be installed" >&2

lint: style ## Run the checks alone
	$(BIN)/mypy

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: $(READY) ## Put the code in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## Measure Timebell and its peers (ARGS=--quick to try it; ARGS="drain ..." for one bench alone)
	exec $(BIN)/$(if $(filter drain enqueue intake late publish steady,$(firstword $(ARGS))),timebell bench,python -m bench.$(if $(filter digests enrol http next notify plan suggest,$(firstword $(ARGS))),alone,run)) $(ARGS)

lock: $(READY) ## Write requirements.lock anew (ARGS=--upgrade moves to the newest versions)
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
		--quiet --output-file requirements.lock $(ARGS)

sbom: $(READY) ## Write the bill of materials (CycloneDX) of what is locked to build/timebell.cdx.json
	mkdir -p build
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null)} $(BIN)/python -m ops.sbom >build/timebell.cdx.json

clean: ## Remove the environment and everything that was generated
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -type d -name __pycache__ -prune -exec rm -rf {} +

# The interpreter is looked for by trying, since a name on the path may be a shim that leads nowhere or a Python
# without venv. An environment that was made elsewhere, or only half made, is made again.
$(READY): requirements.lock pyproject.toml
	@rm -f $(READY)
	@if ! { grep -qF "$(CURDIR)/$(VENV)" $(VENV)/pyvenv.cfg && $(PIP) --version; } >/dev/null 2>&1; then \
		fit='import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))'; \
		for python in $(PYTHON) $(if $(PYTHON),,python3 python3.11 python3.12 python3.13 python3.14 python); do \
			if "$$python" -c "$$fit" >/dev/null 2>&1; then \
				echo "Making $(VENV) with $$("$$python" --version)"; \
				exec "$$python" -m venv --clear $(VENV); \
			fi; \
		done; \
		echo "Timebell needs Python 3.11 or newer with its venv module, and found none here." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.11" >&2; \
		exit 1; \
	fi
	@echo "Installing the locked packages"
	@# pip brings uv, which is several times faster with the rest. An index that only pip knows of is left to pip.
	@awk '/^[^ ]/ { is_uv = /^uv==/ } is_uv' requirements.lock >$(VENV)/uv.lock
	@$(PIP) install --quiet --require-hashes -r $(VENV)/uv.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --compile-bytecode -r requirements.lock || \
		$(PIP) install --quiet --require-hashes -r requirements.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $(READY)
