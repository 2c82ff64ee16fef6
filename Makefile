# Every target builds the environment it needs: "make sweep" or "make test" alone is enough on a
# fresh machine with git, make and Python 3.11 or newer (with its venv module); `make pythons` tries which.
#
#   make PYTHON=python3.13 test     uses another interpreter (after "make clean" if .venv exists)

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

STUDIES := specs/studies/dfmodel_published.yaml specs/studies/dse80.yaml
SEARCHES := placements_full placements_bert_large placements_gpt2_xl

# Ray: no telemetry, and no second virtual environment per job when somebody starts it through "uv run".
export RAY_USAGE_STATS_ENABLED := 0
export RAY_ENABLE_UV_RUN_RUNTIME_ENV := 0
export PIP_ROOT_USER_ACTION := ignore
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Where this is set, every process compiles our modules anew, and every start of Ray takes three times as long.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup sweep figures placement placement-search placement-units test test-quick test-nightly browser-test chaos cluster-test release-check docs pythons mutate lint format bench bench-figures lock clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## create .venv from requirements.lock (hashes checked, wheels only)

sweep: $(STAMP)  ## run the two example studies on a local Ray and show their results
	@set -e; for study in $(STUDIES); do \
	  echo "$(BIN)/sweeper run $$study --backend ray"; \
	  $(BIN)/sweeper run $$study --backend ray; \
	done
	@set -e; for study in $(STUDIES); do \
	  echo "$(BIN)/sweeper show $$study"; \
	  $(BIN)/sweeper show $$study; \
	done

figures: $(STAMP)  ## evaluate the case studies and draw them into results/case_studies
	$(BIN)/python -m replications.case_figures
	$(BIN)/python -m replications.pathfinding_figures

# Each of the three takes hours on two cores, and goes on where it was stopped.
placement: $(STAMP)  ## label placements, compare cost models, and let one learn a change of the compiler
	$(BIN)/sweeper run placements --backend ray
	$(BIN)/sweeper fit-placement placements --backend ray
	$(BIN)/sweeper run placements_later --backend ray
	$(BIN)/sweeper fit-placement placements_later --after placements --graphs 8 --graphs 32 --backend ray

placement-search: $(STAMP)  ## train the cost model of the library, and ask what its picks are worth in a search
	@set -e; for study in placements placements_searched $(SEARCHES); do \
	  $(BIN)/sweeper run $$study --backend ray; \
	done
	$(BIN)/sweeper fit-placement placements --also placements_searched --save specs/cost_models/narrow.json
	$(BIN)/sweeper judge-placements $(SEARCHES) --model schedule --model narrow

placement-units: $(STAMP)  ## train the unit model of the library, and place Table VI of DFModel with it
	$(BIN)/sweeper run placements_units --backend ray
	$(BIN)/sweeper fit-units placements_units --save specs/unit_models/dataflow_units.yaml
	$(BIN)/sweeper run table6_sn10_units

test: $(STAMP)  ## run the tests in two processes (ARGS="-k name" selects)
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-quick: $(STAMP)  ## the same without benchmarks and what takes ten seconds and more
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" $(ARGS)

test-nightly: $(STAMP)  ## the same with 50 times as many examples, and what takes long
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder --hypothesis-profile=nightly -o timeout=3000 $(ARGS)

browser-test: $(STAMP)  ## open reports in a real browser (needs chromium, chromedriver and node)
	$(BIN)/python -m pytest -q tests/browser $(ARGS)

chaos: $(STAMP)  ## disturb a real study on Ray at random moments (ARGS="--minutes 30")
	$(BIN)/python -m tests.chaos $(ARGS)

cluster-test: $(STAMP)  ## the cluster file on hosts that are namespaces of this machine (root; ten minutes)
	$(BIN)/python -m tests.cluster

release-check: $(STAMP)  ## build wheel and sdist, and use them where nothing else is installed (five minutes)
	$(BIN)/python -m tests.release

docs: $(STAMP)  ## build the documentation site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

pythons: $(STAMP)  ## the quick tests under every Python that the classifiers claim
	$(BIN)/python -m tests.pythons

mutate: $(STAMP)  ## do the tests notice the faults of tests/faults? (ARGS="--room graphs --seeds 10")
	$(BIN)/python -m tests.mutate $(ARGS)

lint: $(STAMP)  ## ruff check, ruff format --check, lint-imports, mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy

format: $(STAMP)  ## let ruff fix and format what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## measure sweeper and its rivals; exit 1 if a part cannot be measured (ARGS="--only peer")
	$(BIN)/python -m benchmarks $(ARGS)

bench-figures: $(STAMP)  ## measure everything, and write the figures of README.md and docs/speed.md
	$(BIN)/python -m benchmarks --json benchmarks/figures.json
	$(BIN)/python -m benchmarks.report

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 11) <= v < (3, 15) else f"sweeper needs Python 3.11 to 3.14, found {v[0]}.{v[1]}; try: make PYTHON=python3.12 setup")' \
	  || { echo "no usable interpreter behind PYTHON=$(PYTHON)" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "$(PYTHON) has no venv module; on Debian and Ubuntu: apt install python3-venv" >&2; exit 2; }
	@echo "creating $(VENV) with $$($(PYTHON) --version): about 450 MB to download, 1.5 GB on disk"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --require-hashes --only-binary :all: -r requirements.lock
	@$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	@touch $@

# For maintainers; needs uv.  uv.lock stays out of git, and requirements.lock carries hashes but no addresses.
lock:  ## write requirements.lock anew from pyproject.toml (needs uv; ARGS=--upgrade for newer versions)
	uv lock $(ARGS)
	uv export -q --frozen --extra dev --no-emit-project --no-header --no-annotate -o requirements.lock.tmp
	@if grep -nE '://|^-' requirements.lock.tmp; then echo "an address or option in the lock: not taken" >&2; exit 1; fi
	mv requirements.lock.tmp requirements.lock

clean:  ## remove .venv, caches and build outputs; results/ stays
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .numba_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
