# Everything a newcomer or a build machine needs, from Python 3.11 or newer and nothing else.

PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
UV := $(VENV)/uv/bin/uv
# Two processes, for two cores: each has a Spark of its own, both share the servers, and the first to end takes over
# tests of the other.
PYTEST := $(BIN)/pytest -q -n 2 --dist worksteal

export PYTHONDONTWRITEBYTECODE =

.PHONY: setup servers demo demo-s3 demo-connect demo-cluster test test-pure test-spark verify matrix lint format bench chaos fuzz wheel log-store jars-lock relock clean

setup: $(VENV)/.installed
	@$(BIN)/python -m lakesmith.jvm.setup

$(UV): requirements-uv.lock
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: install it, or call make PYTHON=/path/to/python"; exit 4; }
	$(PYTHON) -m venv --clear $(VENV)
	$(PYTHON) -m venv $(VENV)/uv
	$(VENV)/uv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	@touch $@

$(VENV)/.installed: $(UV) requirements.lock pyproject.toml
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# Real servers for the tests, fetched once into the cache beside the jars.
servers: setup
	@$(BIN)/python -m tests.servers.fetch

demo: setup
	@$(BIN)/python examples/shop/demo.py

# The shop on an S3 server, on a Spark Connect server and on a cluster with S3, each compared with the local result.
demo-s3 demo-connect demo-cluster: setup
	@$(BIN)/python -m tests.servers.demo $(@:demo-%=%)

test: lint test-pure test-spark

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-pure: setup
	$(PYTEST) -m "not spark and not servers and not verify"

test-spark: setup servers
	$(PYTEST) -m "(spark or servers) and not verify"

# What has to pass before a release: all tests, those too that are long by nature. `KILLS=200` adds random kills.
verify: test
	$(PYTEST) -m verify
	$(if $(KILLS),$(MAKE) chaos)

# The pure tests on each Python that Lakesmith supports and this machine has. pyenv shows all its versions to uv.
matrix: $(UV)
	@export PYENV_VERSION="$$(pyenv versions --bare 2>/dev/null | paste -sd: -)"; \
	for version in 3.11 3.12 3.13; do \
		python=$(VENV)/matrix-$$version; \
		if ! $(UV) venv --quiet --clear --no-python-downloads --python $$version $$python; then \
			echo "Python $$version: not tested, this machine does not have it"; continue; fi; \
		echo "Python $$version"; \
		$(UV) pip sync --quiet --python $$python --require-hashes requirements.lock && \
		$(UV) pip install --quiet --python $$python --no-deps --no-build-isolation --editable . && \
		$$python/bin/python -c "import lakesmith" && \
		$$python/bin/pytest -q -n 2 -m "not spark and not servers and not verify" || exit 1; \
	done

# Reads mutated declarations and data files: make fuzz SEED=… CASES=…
fuzz: setup
	$(BIN)/python -m tests.fuzz --seed "$(SEED)" --cases $(or $(CASES),10000)

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench
	$(BIN)/python -m bench

# What the measurements compare with is installed beside, and taken away again by the next set-up that installs.
$(VENV)/.bench: setup requirements-bench.lock
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements-bench.lock
	@touch $@

# Kills at random, for as long as you like: `make chaos KILLS=1000 SEED=1`; `ONLY=17` is one episode of a seed again.
chaos: setup
	$(BIN)/python -m tests.faults.chaos --kills $(or $(KILLS),1000) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) \
		$(if $(MINUTES),--minutes $(MINUTES))

wheel: setup
	$(UV) build --quiet --python $(BIN)/python --no-build-isolation --wheel --out-dir dist

log-store: setup
	$(BIN)/python java/build.py

# Newest versions that pyproject.toml allows.
relock: $(UV)
	$(UV) pip compile pyproject.toml --extra spark --extra connect --extra java --extra sources --group dev --upgrade --quiet \
		--universal --generate-hashes --no-header --no-annotate --output-file requirements.lock
	$(UV) pip compile pyproject.toml --extra spark --extra connect --extra java --extra sources --group dev --group bench --quiet \
		--constraint requirements.lock --universal --generate-hashes --no-header --no-annotate \
		--output-file requirements-bench.lock

# The hashes of the jars named in jars.lock, taken anew.
jars-lock: setup
	$(BIN)/python java/lock.py

clean:
	rm -rf $(VENV) dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
