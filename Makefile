PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A file's tests share servers and browsers, so they stay together; some only wait for time to pass.
PYTEST := -n 3 --dist loadfile --no-loadscope-reorder
comma := ,
# Silent when it works; when it fails, the end of the log, without the addresses it is full of.
define install
@$(BIN)/python -m pip install --disable-pip-version-check --no-input --progress-bar off \
  -c constraints.txt -e $(1) > $(VENV)/pip.log 2>&1 || \
  { grep -v '://' $(VENV)/pip.log | tail -n 20 >&2; exit 1; }
@touch $@
endef

.DEFAULT_GOAL := help
.PHONY: help demo test soak coverage lint bench reproduce docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/core.stamp ## See what sudare does, in a minute
	@$(BIN)/sudare demo

test: lint ## Lint, then run every test
	@$(BIN)/python -m pytest -q $(PYTEST)

soak: $(VENV)/test.stamp ## Run the long tests: more kills, faults and made up requests
	@SUDARE_SOAK=1 $(BIN)/python -m pytest -q $(PYTEST) -m soak --soak-table benchmarks/results/soak.md

coverage: $(VENV)/test.stamp ## Run every test, and list the lines none of them runs
	@$(BIN)/python -m pytest -q $(PYTEST) --cov

lint: $(VENV)/test.stamp ## Check style, types and layers
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

bench: $(VENV)/bench.stamp ## Measure against peers (ONLY="noise" picks some)
	@$(BIN)/python -m benchmarks $(ONLY)

reproduce: $(VENV)/reproduce.stamp ## Redraw the papers (ARGS="glance-3 --quick" says which, and how)
	@$(BIN)/python -m papers $(or $(ARGS),all)

docs: $(VENV)/docs.stamp ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict > $(VENV)/docs.log 2>&1 || \
	  { grep -v '^INFO' $(VENV)/docs.log >&2; exit 1; }
	@echo "Open site/index.html"

clean: ## Remove everything that can be made again
	@rm -rf $(VENV) .venv-peers site dist sudare-demo sudare-figures .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/made.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "sudare needs Python 3.11 or newer; choose one with: make PYTHON=python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }
	@touch $@

$(VENV)/core.stamp: pyproject.toml constraints.txt $(VENV)/made.stamp
	@echo "Setting up $(VENV) ..."
	$(call install,'.[all]')

$(VENV)/%.stamp: pyproject.toml constraints.txt $(VENV)/made.stamp
	@echo "Setting up $(VENV) for $* ..."
	$(call install,'.[all$(comma)$*]')
