# `make` or `make help` lists what there is. Everything sets itself up in .venv first.

# Every folder with a package of this repository; a new plugin is picked up by itself.
PROJECTS := $(wildcard pyproject.toml plugins/*/pyproject.toml examples/pyproject.toml examples/*/pyproject.toml)
FOLDERS := $(patsubst %/pyproject.toml,%,$(patsubst pyproject.toml,.,$(PROJECTS)))

# A stamp for this place: a .venv that was moved with its folder does not work, and is made anew.
STAMP := .venv/ready-$(shell pwd -P | cksum | cut -d ' ' -f 1)
BIN := .venv/bin

# What the checks look at; a folder that is not there yet is left out.
CHECKED := $(wildcard core migrations plugins tests benchmarks examples conftest.py)

ARGS :=

.DEFAULT_GOAL := help
.PHONY: help demo test check format bench setup lock clean

help: ## list the targets
	@echo "usage: make TARGET [ARGS='...'] [PYTHON=/path/to/python3]"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP) ## deliver the example's orders, kill a worker, account for every one
	@$(BIN)/sendoff demo $(ARGS)

test: $(STAMP) ## run the tests in random order on all cores (ARGS="-k name" for some)
	@$(BIN)/python -m pytest -n auto --dist loadgroup $(ARGS)

check: $(STAMP) ## formatting, lint, strict types, the direction of imports
	@$(BIN)/ruff format --check --quiet --diff $(CHECKED)
	@$(BIN)/ruff check --quiet $(CHECKED)
	@$(BIN)/mypy $(CHECKED)
	@$(BIN)/lint-imports --no-logo

format: $(STAMP) ## format, and mend what lint can mend
	@$(BIN)/ruff check --quiet --fix-only $(CHECKED)
	@$(BIN)/ruff format $(CHECKED)

bench: $(STAMP) ## measure rows per second beside the same SQL issued raw
	@$(BIN)/python -m benchmarks $(ARGS)

setup: $(STAMP) ## only set up .venv

lock: $(STAMP) ## bring requirements.lock in line with the pyprojects (ARGS=--upgrade for newer versions)
	@scripts/lock $(ARGS)

clean: ## remove .venv, caches and what the demo left
	rm -rf .venv dist build demo-output .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): requirements.lock scripts/setup $(PROJECTS)
	@scripts/setup $@ $(FOLDERS)
