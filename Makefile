# Toolwright's few commands. They need Python 3.11 or later, nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
COMPILE = $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --custom-compile-command "make lock"

.PHONY: demo test test-rest test-all check behaviour bench bench-save lock clean

demo: $(VENV)/.demo  ## a run you can watch, offline
	$(BIN)/toolwright demo

test: $(VENV)/.dev  ## every property: the tests, and a sample of each crash matrix
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not exhaustive and not outage and not browser"

test-rest: $(VENV)/.dev  ## what `make test` leaves out: every point of the crash matrices, outages, the browser
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "exhaustive or outage or browser"

test-all: test test-rest  ## all tests

check: $(VENV)/.dev  ## everything but the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/test_house.py

behaviour: $(VENV)/.dev  ## every statement of the documents with the tests that prove it
	$(BIN)/python -m tests.behaviour

bench: $(VENV)/.dev  ## what things cost, beside the least they could cost, and the last figures
	$(BIN)/python -m bench

bench-save: $(VENV)/.dev  ## the same, and keep the figures in bench/LAST.md
	$(BIN)/python -m bench --save

lock: $(VENV)/.dev  ## requirements/*.txt anew from pyproject.toml; UPGRADE=--upgrade takes newer versions
	$(COMPILE) $(UPGRADE) --group dev --extra all -o requirements/dev.txt
	$(COMPILE) $(UPGRADE) --extra demo -c requirements/dev.txt -o requirements/demo.txt
	$(COMPILE) $(UPGRADE) -c requirements/dev.txt -o requirements/base.txt

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

# A stamp tells what is installed; it is older than its files when these have changed.
$(VENV)/.demo $(VENV)/.dev: $(VENV)/.%: requirements/%.txt pyproject.toml | $(BIN)/pip
	$(INSTALL) --require-hashes -r $<
	$(INSTALL) --no-deps -e .
	touch $@
