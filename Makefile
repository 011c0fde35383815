# Every target sets up what it needs in .venv, and is quick the second time.
PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
ARGS ?=

BIN := .venv/bin
# One thread: BLAS threads on a busy machine only wait for each other.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: quickstart test check format wheel-test clean

quickstart: .venv/installed  ## train the bundled model, minutes on two cores; ARGS="--max_steps 5" for less
	$(BIN)/trl-grpo-ext train --config quickstart $(ARGS)

test: .venv/installed-dev  ## run the tests
	$(BIN)/python -m pytest $(ARGS)

check: .venv/installed-dev  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/installed-dev  ## put the code into its format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel-test: .venv/installed-dev  ## build the wheel and use it in an empty environment
	$(BIN)/python -m pytest -m wheel tests/test_wheel.py $(ARGS)

clean:  ## remove everything that was set up or built
	rm -rf .venv build dist *.egg-info

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml $(CONSTRAINTS)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable ".[dev]"
	touch $@
