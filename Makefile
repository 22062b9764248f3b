# Everything is set up by the targets themselves: Python 3.11 or newer and make are all they need.
PYTHON ?= python3
VENV := .venv
DEMO_VENV := .venv-demo
RUN := $(VENV)/bin/python
SOURCES := pyproject.toml $(shell find queries service protos client shuffler analyzer accountant deploy -type f -not -path '*/__pycache__/*' 2>/dev/null)
PIP := -m pip install --quiet --disable-pip-version-check
WORKERS ?= auto

.PHONY: help demo test test-slow lint types fuzz bench soak stubs figures clean

help:  ## List the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(DEMO_VENV)/.installed  ## Run the whole pipeline on real data.
	$(DEMO_VENV)/bin/hubbub demo $(DEMO)

test: lint types  ## Linter, type checker and all tests but the slow ones.
	$(RUN) -m pytest -n $(WORKERS) -m "not slow" tests

test-slow: $(VENV)/.installed  ## The tests that take longer than five seconds.
	$(RUN) -m pytest -n $(WORKERS) -m slow tests

lint: $(VENV)/.installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(VENV)/.installed
	$(VENV)/bin/mypy -p hubbub

fuzz: $(VENV)/.installed  ## Fuzz all that parses bytes from outside, a minute a target; FUZZ="--seconds 600 draft" for more of one.
	$(RUN) $(PIP) 'atheris>=3'
	$(RUN) tests/fuzz/search.py $(FUZZ)

bench: $(VENV)/.installed  ## Measure, print the table, write bench.json.
	$(RUN) tests/bench/run.py

soak: $(VENV)/.installed  ## Minutes of load with restarts: counts, memory, file descriptors (SOAK="--minutes 10").
	$(RUN) tests/soak/run.py $(SOAK)

stubs: $(VENV)/.installed  ## Regenerate the gRPC stubs in protos/v1.
	PYTHON=$(RUN) protos/generate.sh

figures: $(VENV)/.installed  ## Redraw the comparisons in docs/figures.
	@for name in $$($(VENV)/bin/hubbub account plot --list | cut -d' ' -f1); do \
		$(VENV)/bin/hubbub account plot --figure $$name --out docs/figures/$$name.svg --json \
			> docs/figures/$$name.json || exit 1; \
	done

clean:  ## Remove what the targets made.
	rm -rf $(VENV) $(DEMO_VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .fuzz bench.json

$(VENV)/.installed: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	rm -rf build
	$(RUN) $(PIP) '.[dev,demo]'
	touch $@

$(DEMO_VENV)/.installed: $(SOURCES)
	$(PYTHON) -m venv $(DEMO_VENV)
	rm -rf build
	$(DEMO_VENV)/bin/python $(PIP) '.[demo]'
	touch $@
