# Two commands: `make book` and `make test`. Both make the environment first, if it is missing or older than its description.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# another interpreter: make book PYTHON=/path/to/python3.11
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && { echo $$p; break; }; done)

CAMPAIGN ?= quick
# which jobs of it, by name or pattern; and whether they are trained anew, beside the tables
ONLY ?=
FRESH ?=
override FRESH := $(filter-out 0 no No false False off Off,$(FRESH))
# where `make bench` writes its numbers, in a folder for the processor; results/benchmarks is what the book shows
INTO ?= build/benchmarks
CORES ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
# recipes read these from their environment: a shell never reads them as commands
export CAMPAIGN ONLY FRESH CORES INTO
# one torch thread in every process: contended loops are several times slower
export OMP_NUM_THREADS ?= 1
export PYTHONUTF8 = 1
# Jupyter, IPython and the hub keep files in the home of a user; one of a container may have none
ifeq ($(HOME),)
export HOME := $(CURDIR)/build/home
endif

.PHONY: help venv book pdf test browser coverage compat ecosystem lint format types reproduce bench clean

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | while IFS=$$'\t' read -r name what; do printf '  make %-10s %s\n' "$$name" "$$what"; done

venv: $(STAMP) ## make .venv with the versions of constraints.txt

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer with venv and pip was found. Name one: make venv PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(BIN)/python && $(BIN)/python -c '' || "$(PYTHON)" -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

book: $(STAMP) ## execute the notebooks and build the book; prints the address of its first page
	$(BIN)/jupyter-book build . -n -W --keep-going
	@echo; echo "The book: file://$(CURDIR)/_build/html/index.html"

pdf: book ## the book as one PDF, printed by Chromium; the first page links it
	$(BIN)/jupyter-book build . --builder singlehtml
	$(BIN)/python book/tools/make_pdf.py _build "$$(sed -n 's/^root: //p' _toc.yml)"

test: ## ruff, mypy, the book with warnings as errors, pytest
	@$(MAKE) --no-print-directory -j2 lint types book
	$(BIN)/python -m pytest -n "$$CORES" --dist worksteal

browser: ## puppeteer-core and axe-core, with which make test looks at the book in Chromium, where node and Chromium are
	cd tests/book/browser && npm ci --no-audit --no-fund --ignore-scripts

coverage: $(STAMP) ## pytest with branch coverage of gdlib and study
	$(BIN)/python -m pytest --cov --cov-report=term-missing

compat: ## the tests of gdlib with the oldest and the newest PyTorch, in environments under build/compat
	PYTHON="$(PYTHON)" .ci/compat

ecosystem: ## the recipes with Lightning, skorch, Transformers and timm, in an environment under build/ecosystem
	PYTHON="$(PYTHON)" .ci/ecosystem

lint: $(STAMP) ## ruff over code and notebooks, and which module may import which
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python notebooks/lint.py

format: $(STAMP) ## let ruff put code and notebooks into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python notebooks/lint.py --write

types: $(STAMP) ## mypy on gdlib and study
	$(BIN)/mypy

reproduce: $(STAMP) ## run what is missing of a campaign, and put it into its tables: make reproduce CAMPAIGN=mnist [ONLY='relu-*' FRESH=1 CORES=2]; FRESH trains it anew and compares
	@case "$$CORES" in all | [1-9]*) ;; *) echo "CORES says how many jobs run at a time, as in CORES=2; got '$$CORES'"; exit 1;; esac
	status=0; $(BIN)/snakemake --cores "$$CORES" --keep-going --nolock --drop-metadata --show-failed-logs --quiet reason host \
		--config "campaign=$$CAMPAIGN" "only=$$ONLY" "fresh=$$FRESH" || status=$$?; \
	if [ -n "$$FRESH" ]; then $(BIN)/python -m study.campaign agree "$$CAMPAIGN" "$$ONLY" || status=$$?; \
	else $(BIN)/python -m study.campaign collect "$$CAMPAIGN" || status=$$?; fi; exit $$status

bench: $(STAMP) ## speed and memory against others as ratios: make bench [INTO=results/benchmarks]
	@for script in sweep tables loss gpu; do echo "== $$script"; $(BIN)/python -m benchmarks.$$script --into "$$INTO"; done

clean: ## remove what the commands made, except .venv and what was measured (build/results, fresh, benchmarks, gpu); checkpoints go too
	if [ -d build ]; then find build -mindepth 1 -maxdepth 1 -not -name results -not -name fresh -not -name benchmarks -not -name gpu -exec rm -rf {} +; fi
	rm -rf build/fresh/*/checkpoints
	rm -rf _build .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
