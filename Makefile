# Everything a developer types.  VENV may name an environment that exists already.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
export PYTHONPATH := src

.PHONY: setup check
setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --progress-bar on -e '.[dev]'
	@touch $@

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/unit tests/property -n 2
