# The commands of a developer.  VENV may name an existing environment.
# PYTHON is the first interpreter that runs and is new enough: a name on the path may be a version manager's stand-in for nothing.
PYTHON ?= $(firstword $(shell for each in python3 python3.13 python3.12 python3.11; do \
  $$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$each; done) python3)
VENV ?= .venv
BIN = $(VENV)/bin
RUN = $(BIN)/python -m
SEED ?= 1
HOURS ?= 1
ARGS ?=
export PYTHONPATH := $(CURDIR)/src:$(CURDIR)

.PHONY: setup demo test check lint sim bench performance golden docs

setup: $(VENV)/.provisioned   ## Python packages, Java, Apache Kafka's jars, Spark's connector

demo: setup                   ## real orders through a stock client, our broker and Spark
	@$(RUN) moldau.pipelines.demo $(ARGS)

test: setup                   ## everything, the slow and the Java tests too
	@$(RUN) pytest tests -n 2 --dist loadgroup --max-worker-restart 0 $(ARGS)

check: lint                   ## the checks that every commit passes; no Java
	$(RUN) pytest tests/unit tests/property -n 2 $(ARGS)

lint: $(VENV)/.ready          ## style, types, floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

sim: $(VENV)/.ready           ## a whole cluster on virtual time: make sim SEED=7 HOURS=10
	@PYTHONHASHSEED=0 $(RUN) proof.cluster.simulate --seed $(SEED) --hours $(HOURS) --seeds-file tests/simulation/seeds.txt $(ARGS)

bench: setup                  ## measure beside Apache Kafka and Tansu: make bench ARGS="--only produce --rounds 3"
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]'
	@$(RUN) benchmarks $(ARGS)

performance: setup            ## measure Python's clients on a quiet machine, 13 minutes, and make docs/reference/performance.md
	@$(RUN) benchmarks.python_clients $(ARGS)
	@$(RUN) benchmarks.memory
	@$(RUN) benchmarks.page

golden: setup                 ## write the golden files anew from real Kafka; review the diff
	$(RUN) pytest tests/golden -n 0 --rewrite-golden $(ARGS)

docs: $(VENV)/.ready          ## the generated references
	$(RUN) moldau.tools.reference docs $(ARGS)

$(VENV)/.ready: pyproject.toml
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV) 2>/dev/null || { \
	  $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }   # Debian without python3-venv
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Moldau needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …")'
	$(BIN)/pip install --disable-pip-version-check --progress-bar on -e '.[dev]'
	@touch $@

$(VENV)/.provisioned: $(VENV)/.ready
	@$(RUN) proof.kafka.provision
	@touch $@
