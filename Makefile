# Everything is set up by the targets themselves: Python 3.11 or newer and make are all they need.
PYTHON ?= python3
VENV := .venv
DEMO_VENV := .venv-demo
NOTEBOOKS_VENV := .venv-notebooks
RUN := $(VENV)/bin/python
SETUP := pyproject.toml setup.py Makefile
SOURCES := $(SETUP) src/hubbub/__init__.py $(shell find accountant analyzer cli client deploy pages planning protos queries results service shuffler verification -type f -not -path '*/__pycache__/*' 2>/dev/null)
PIP := -m pip install --quiet --disable-pip-version-check
# One more than cores: tests of processes wait for these half of the time.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1)
# Who has finished takes tests from who has not.
SPREAD = -n $(WORKERS) --dist worksteal

# Programs that tests start take their time to compile what they import, each of them anew, if none may keep it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo demo-cluster check test pytest costs exhaustive mutants lint types fuzz bench soak withstand stubs lock matrix figures reference pictures screenshots browser web gaps docs notebooks hooks clean

help:  ## List the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(DEMO_VENV)/.installed  ## Run the whole pipeline on real data.
	$(DEMO_VENV)/bin/hubbub demo $(DEMO)

demo-cluster: $(VENV)/.installed  ## The same as a cluster runs: PostgreSQL, a leader that is killed, a standby.
	$(VENV)/bin/hubbub demo --cluster --devices 2000 $(DEMO)

check: lint types  ## Linter, type checker and the tests that import what changed against HEAD (BASE=HEAD~1).
	$(RUN) tests/loop/affected.py $(if $(BASE),--base $(BASE))

# One process for types beside those for tests: neither keeps two cores busy from start to end.
test: lint  ## Linter, type checker and all tests but the slow ones; ALL=1 for these too, in one session.
	@$(MAKE) --no-print-directory --jobs 2 types pytest

pytest: $(VENV)/.installed
	$(RUN) -m pytest $(SPREAD) $(if $(ALL),,-m "not slow") tests

costs: $(VENV)/.installed  ## Measure what tests cost (COSTS=tests/unit), and write which are slow to tests/costs.txt.
	mkdir -p build && rm -f build/costs
	-$(RUN) -m pytest $(SPREAD) --cost build/costs $(or $(COSTS),tests)
	$(RUN) tests/loop/costs.py build/costs

exhaustive: lint types $(VENV)/.browser $(VENV)/.web  ## All of it whole, property tests with ten times the examples: before a release. Hours.
	TEST_EXAMPLES=10 $(RUN) -m pytest $(SPREAD) --timeout 6000 tests
	$(RUN) tests/loop/million.py --minutes 30
	$(MAKE) demo demo-cluster bench withstand

mutants: $(VENV)/.installed  ## Change single things in what a commit touched (BASE=HEAD~1); list what no test notices.
	$(RUN) tests/loop/mutants.py --base $(or $(BASE),HEAD~1) $(MUTANTS)

lint: $(VENV)/.installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(VENV)/.installed
	$(RUN) src/links.py
	$(VENV)/bin/mypy -p hubbub
	$(VENV)/bin/mypy tests/bench tests/fuzz tests/loop tests/soak tests/support tests/vectors docs/conf.py docs/extensions docs/papers docs/pictures docs/reference

fuzz: $(VENV)/.installed  ## Fuzz all that parses bytes from outside, a minute a target; FUZZ="--seconds 600 draft" for more of one.
	$(RUN) $(PIP) 'atheris>=3'
	$(RUN) tests/fuzz/search.py $(FUZZ)

bench: $(VENV)/.installed  ## Measure, print the table, write bench.json (BENCH="--only mixing").
	$(RUN) tests/bench/run.py $(BENCH)

soak: $(VENV)/.installed  ## Minutes of load with restarts: counts, memory, file descriptors (SOAK="--minutes 10").
	$(RUN) tests/soak/run.py $(SOAK)

withstand: $(VENV)/.installed  ## Attack both ports for a minute each: memory, latency, recovery (WITHSTAND="--seconds 10").
	$(RUN) tests/soak/withstand.py $(WITHSTAND)

stubs: $(VENV)/.installed  ## Regenerate the gRPC stubs in protos/v1.
	PYTHON=$(RUN) protos/generate.sh

matrix: $(VENV)/.installed  ## Try every Python from 3.11 on that is here, and name what lacks wheels (MATRIX=--wheels: that alone).
	$(RUN) tests/matrix.py $(MATRIX)

lock: $(VENV)/.installed  ## Choose anew what the images are made of: deploy/containers/requirements.txt, with hashes.
	$(VENV)/bin/uv pip compile --quiet --upgrade --generate-hashes --no-annotate --only-binary :all: \
		--extra postgres --extra traces --extra uvloop \
		--python-version 3.11 --python-platform linux --custom-compile-command "make lock" \
		--output-file deploy/containers/requirements.txt pyproject.toml deploy/containers/build.in

figures: $(VENV)/.installed  ## Redraw the papers' comparisons in docs/papers; FIGURES="balle-3" for one.
	cd docs && ../$(RUN) -m papers.draw $(FIGURES)

reference: $(VENV)/.installed  ## Make the pages of docs/reference from the code: commands, settings, metrics, messages.
	cd docs && ../$(RUN) -m reference.generate

pictures: $(VENV)/.installed  ## Redraw the pictures of the explanations in docs/pictures.
	cd docs && ../$(RUN) -m pictures.draw

web: $(VENV)/.web  ## Tests of the TypeScript client in Node, and in the machine's Chromium after `make browser`.
	TEST_EXAMPLES=10 $(RUN) -m pytest -q -n 0 tests/web

browser: $(VENV)/.browser  ## Tests of pages in the machine's Chromium, with every page; `make test` has some of them.
	TEST_EXAMPLES=10 $(RUN) -m pytest -q -n 0 tests/browser

screenshots: $(VENV)/.browser  ## Take the pictures of pages in docs/pictures/screens anew, in the light and in the dark.
	$(RUN) tests/browser/screenshots.py

gaps: $(VENV)/.installed  ## Compute how far above attacks the certified ε are: the table in docs/explanation/bounds.md, its picture.
	cd docs && ../$(RUN) -m pictures.gaps

docs: $(VENV)/.documented  ## Build the documentation into site/; a warning is an error.
	rm -rf site
	$(RUN) -m sphinx --quiet --fresh-env --jobs auto --fail-on-warning --keep-going -c docs -d build/doctrees . site

notebooks: $(NOTEBOOKS_VENV)/.installed  ## Run the notebooks, and write them with their outputs: docs/notebooks/*.ipynb, to open and change.
	cd docs && ../$(NOTEBOOKS_VENV)/bin/python -m extensions.notebooks $(NOTEBOOKS)

hooks: $(VENV)/.installed  ## Run linter and type checker before each commit, from now on.
	$(VENV)/bin/pre-commit install

clean:  ## Remove what the targets made.
	rm -rf $(VENV) $(DEMO_VENV) $(NOTEBOOKS_VENV) .venv-matrix build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .fuzz bench.json hubbub-demo-report.html docs/notebooks/*.ipynb clients/typescript/node_modules clients/typescript/dist clients/typescript/src/gen

# The package is installed where it lies: an edit is seen at once, and only a change of what is required, or of this file,
# installs again. The links are for type checkers and editors.
$(VENV)/.installed: $(SETUP)
	@echo "installing hubbub and its tools into $(VENV): a minute or two, once"
	$(PYTHON) -m venv $(VENV)
	$(RUN) $(PIP) --editable '.[dev,demo]'
	$(RUN) src/links.py
	touch $@

$(VENV)/.browser: $(VENV)/.installed
	@echo "installing what drives a browser into $(VENV), once; the browser is the machine's: apt-get install chromium"
	$(RUN) $(PIP) --editable '.[browser]'
	touch $@

$(VENV)/.web: $(VENV)/.installed clients/typescript/package-lock.json
	@echo "installing the packages of the TypeScript client, once; Node is the machine's, or comes by pip"
	cd tests && ../$(RUN) -m support.web_client
	touch $@

$(VENV)/.documented: $(VENV)/.installed
	@echo "installing what the site is built with into $(VENV), once"
	$(RUN) $(PIP) --editable '.[docs]'
	touch $@

# An environment of its own: services may run from .venv, and an install would replace files that they have not read yet.
$(NOTEBOOKS_VENV)/.installed: $(SETUP)
	@echo "installing hubbub and what runs notebooks into $(NOTEBOOKS_VENV): a minute or two, once"
	$(PYTHON) -m venv $(NOTEBOOKS_VENV)
	$(NOTEBOOKS_VENV)/bin/python $(PIP) --editable '.[notebooks]'
	touch $@

# The demo runs from what a user installs, so a change of any source installs again. setuptools reuses build/, with
# whatever was there before.
$(DEMO_VENV)/.installed: $(SOURCES)
	@echo "installing hubbub into $(DEMO_VENV): a minute or two, after each change of its sources"
	$(PYTHON) -m venv $(DEMO_VENV)
	rm -rf build
	$(DEMO_VENV)/bin/python $(PIP) '.[demo,dashboard]'
	touch $@
