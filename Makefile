# Toolwright's few commands. They need Python 3.11 or later, nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
NPM := npm ci --ignore-scripts --omit=optional --omit=peer --no-audit --no-fund --loglevel=error
COMPILE = $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --custom-compile-command "make lock"
SERVER := --extra openai --extra anthropic --extra postgres --extra nats --extra mcp --extra console --extra telemetry --extra sentry --extra openapi

# Four test processes and the commands that they start would each compile everything where Python is told not to write bytecode.
export PYTHONPYCACHEPREFIX := $(abspath $(VENV)/pycache)
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-rest again test-pythons test-all check docs reference cost mcp-conformance behaviour bench bench-save kills kills-lock lock clean

demo: $(VENV)/.demo  ## a run you can watch, offline
	$(BIN)/toolwright demo

test: $(VENV)/.dev  ## every property: the tests, and a sample of each crash matrix
	$(BIN)/python -m pytest -n 4 --dist worksteal -m "not exhaustive and not outage and not browser and not peers and not slow"

test-rest: $(VENV)/.dev $(VENV)/.npm $(VENV)/.engines  ## what `make test` leaves out: all points of the crash matrices, outages, the browser, slow tests, MCP's peers
	$(BIN)/python -m pytest -n 4 --dist worksteal -m "exhaustive or outage or browser or peers or slow"

again: $(VENV)/.dev  ## the tests that have failed last, one after another
	@echo "A test that fails beside others and not alone is a bug of the test: mend it."
	$(BIN)/python -m pytest -n 0 --last-failed --last-failed-no-failures none

# Those of the machine, by name on the PATH and in pyenv's folder; one that is only a name, as pyenv's, does not run.
MINORS = 3.12 3.13 3.14
OTHERS = $(wildcard $(foreach each,$(MINORS),$(HOME)/.pyenv/versions/$(each).*/bin/python)) $(addprefix python,$(MINORS))
SAMPLE := tests/wiring tests/docs/test_first.py $(foreach each,agent_config defaults dependencies validator plain registry short_agent signature toolset,tests/core/test_$(each).py)

test-pythons: $(VENV)/.dev  ## a sample of the tests with the later Pythons that the machine has
	@seen=; for python in $(OTHERS); do \
	  minor=$$($$python -c 'import sys; print("3.%d" % sys.version_info[1])' 2> /dev/null) || continue; \
	  case " $$seen " in *" $$minor "*) continue;; esac; seen="$$seen $$minor"; \
	  echo "Python $$minor: $$python"; \
	  $(BIN)/uv venv --quiet --clear --python $$python $(VENV)/$$minor && \
	  $(BIN)/uv pip install --quiet --python $(VENV)/$$minor/bin/python --require-hashes -r requirements/dev.txt && \
	  $(BIN)/uv pip install --quiet --python $(VENV)/$$minor/bin/python --no-deps -e . && \
	  $(VENV)/$$minor/bin/python -m pytest -q -n 3 --dist worksteal -p no:cacheprovider \
	    -m "not exhaustive and not outage and not browser and not peers and not slow" $(SAMPLE) || exit 1; \
	done; echo "Later Pythons that were found:$${seen:- none}"

test-all: test test-rest test-pythons  ## all tests

check: $(VENV)/.dev  ## everything but the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	cd examples && for each in *.py first notes office quickstart research engines; do \
	  ../$(BIN)/mypy --strict --cache-dir ../build/mypy $$each || exit 1; done
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -p no:cacheprovider tests/test_house.py tests/typing tests/docs/test_example_models.py
	$(MAKE) docs

docs: $(VENV)/.dev  ## the documentation as a site, in build/site; a dead link or an unknown name fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python hatch_build.py build/site

reference: $(VENV)/.dev  ## regenerates docs/reference from docstrings, commands and routes; a test compares it
	$(BIN)/python -m tests.docs.reference

cost:  ## the files and folders that a commit touches, by area, over the last hundred commits
	@$(PYTHON) -m tests.cost

mcp-conformance: $(VENV)/.dev $(VENV)/.npm  ## MCP's official conformance suite, against our server and our client
	$(BIN)/python -m tests.mcp.conformance

behaviour: $(VENV)/.dev  ## every statement of the documents with the tests that prove it
	$(BIN)/python -m tests.behaviour

bench: $(VENV)/.dev  ## what things cost, beside the least they could cost, and the last figures
	$(BIN)/python -m bench

bench-save: $(VENV)/.dev  ## the same, and keep the figures in bench/LAST.md
	$(BIN)/python -m bench --save

PEERS := langgraph agno pydantic-ai-dbos openai-agents-dbos

kills: $(VENV)/.dev $(addprefix $(VENV)/kills/.,$(PEERS))  ## what a crash costs, here and in other frameworks: bench/KILLS.md, after an hour
	nice $(BIN)/python -m bench.kills --save

kills-lock: $(VENV)/.dev  ## regenerates bench/kills/requirements/*.txt from the *.in files, with the newest versions
	for each in $(PEERS); do $(subst pyproject.toml,bench/kills/requirements/$$each.in,$(subst make lock,make kills-lock,$(COMPILE))) \
	  --upgrade -o bench/kills/requirements/$$each.txt || exit 1; done

# An environment for each framework that is compared; the stamp is beside it.
$(VENV)/kills/.%: bench/kills/requirements/%.txt | $(VENV)/.dev
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)/kills/$*
	$(BIN)/uv pip sync --quiet --python $(VENV)/kills/$*/bin/python --require-hashes $<
	touch $@

lock: $(VENV)/.dev  ## regenerates requirements/*.txt from pyproject.toml; UPGRADE=--upgrade takes newer versions
	$(COMPILE) $(UPGRADE) --group dev --extra all -o requirements/dev.txt
	$(COMPILE) $(UPGRADE) --extra console -c requirements/dev.txt -o requirements/demo.txt
	$(COMPILE) $(UPGRADE) $(SERVER) -c requirements/dev.txt -o requirements/server.txt
	$(COMPILE) $(UPGRADE) -c requirements/dev.txt -o requirements/base.txt
	echo uv | $(subst pyproject.toml,-,$(COMPILE)) -c requirements/dev.txt -o requirements/uv.txt

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Toolwright needs Python 3.11 or later, and $(PYTHON) is Python %d.%d: name another one, as in make PYTHON=python3.11 demo" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)

# A stamp tells what is installed; it is older than its files when these have changed.
$(VENV)/.demo $(VENV)/.dev: $(VENV)/.%: requirements/%.txt pyproject.toml | $(BIN)/pip
	$(INSTALL) --require-hashes -r requirements/uv.txt
	$(UV) --require-hashes -r $<
	$(UV) --no-deps -e .
	touch $@

# MCP's programs from npm; without npm there are none, and their tests are skipped, but fail under CI=true.
$(VENV)/.npm: tests/mcp/npm/package.json tests/mcp/npm/package-lock.json | $(BIN)/pip
	mkdir -p $(VENV)/npm
	cp $^ $(VENV)/npm
	if command -v npm > /dev/null; then $(NPM) --prefix $(VENV)/npm && touch $@; fi

# The Restate server, from npm as well.
$(VENV)/.engines: tests/motor/npm/package.json tests/motor/npm/package-lock.json | $(BIN)/pip
	mkdir -p $(VENV)/engines
	cp $^ $(VENV)/engines
	if command -v npm > /dev/null && [ "$$(uname -sm)" = "Linux x86_64" ]; then $(NPM) --prefix $(VENV)/engines && touch $@; fi

# PgBouncer, of Debian alone; without it its test is skipped.
$(VENV)/.pgbouncer: tests/store/pgbouncer.sh | $(BIN)/pip
	rm -rf $(VENV)/pgbouncer
	mkdir -p $(VENV)/pgbouncer
	sh $< $(abspath $(VENV)/pgbouncer)
	touch $@
