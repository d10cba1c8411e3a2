# Everything runs in .venv; a stamp file there is renewed when pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
BASE := .venv/.installed-base
FULL := .venv/.installed-full
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST ?= $(BIN)/python -m pytest
ARGS ?=
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help demo test test-full test-guest check bench bench-long system-packages
.DELETE_ON_ERROR:

help:  ## this list
	@echo "make demo        three faults against the included engine: a verdict and a report (about 2 minutes)"
	@echo "make test        the tests (ARGS='-k word' selects); as root it first installs missing system packages"
	@echo "make test-full   also those that need a guest kernel or vLLM"
	@echo "make test-guest  the tests that need netem, in a guest kernel (make test runs them too, where it must)"
	@echo "make check       ruff, mypy, import-linter"
	@echo "make bench       figures beside the named rivals"
	@echo "make bench-long  the long ones"

demo: $(BASE)
	$(BIN)/chaosflow run quickstart

test: $(FULL) system-packages
	$(PYTEST) -n $(WORKERS) --dist loadgroup --no-loadscope-reorder -m "not guest and not vllm and not full and not soak" $(ARGS)

test-full: $(FULL) system-packages
	$(PYTEST) -m "not soak" $(ARGS)

test-guest: $(FULL) system-packages
	tests/vm/vm-run --setup
	tests/vm/vm-run --timeout 1500 -- $(PYTEST) -p no:cacheprovider -k "guest or net." tests/guest tests/contract tests/integration/net/test_net_steps.py tests/integration/net/test_net_fuzz.py $(ARGS)

check: $(FULL)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(FULL)
	@.ci/system-packages bench
	@set -e; for script in bench/bench_*.py; do echo "== $$script"; $(BIN)/python $$script; done

bench-long: $(FULL)
	@.ci/system-packages bench
	@set -e; for script in bench/bench_*.py; do echo "== $$script"; CHAOSFLOW_BENCH_LONG=1 $(BIN)/python $$script; done
	$(PYTEST) -m soak --timeout 0 $(ARGS)

system-packages:
	@.ci/system-packages

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "ChaosFlow needs Python 3.11 or newer; name one: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -m venv .venv \
	  || { rm -rf .venv; echo "python3 cannot make virtual environments; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }

$(BASE): pyproject.toml | $(BIN)/python
	@echo "installing ChaosFlow into .venv …"
	@$(PIP) install --editable .
	@touch $@

$(FULL): pyproject.toml | $(BIN)/python
	@echo "installing ChaosFlow and its test tools into .venv …"
	@$(PIP) install --editable '.[test,dev]'
	@touch $@ $(BASE)
