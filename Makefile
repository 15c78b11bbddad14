# Two commands do everything on a fresh machine: `make run` and `make test`.
# Only Python >= 3.11 with pip and venv, make and git are assumed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run extras test check bench accuracy effects crash redteam docs picture hashes sbom clean

run: $(VENV)/run.stamp
	@command -v wakeful >/dev/null || echo "to have \`wakeful\` on your PATH: ln -s $(abspath $(BIN)/wakeful) ~/.local/bin/ (or: uv tool install .)"
	@exec $(BIN)/wakeful up

# What alerts, the chat gateway, containers, Redis and the MCP server need beside it.
extras: $(VENV)/extras.stamp

# Two at a time, a file of tests each; what minds the clock runs alone afterwards.
test: $(VENV)/test.stamp
	$(BIN)/python tests/support/prerequisites.py
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not alone" tests $(PYTEST_ARGS)
	$(BIN)/python -m pytest -m alone tests $(PYTEST_ARGS)

check: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/unit/test_imports.py tests/unit/test_docs.py tests/unit/test_specs.py

bench: $(VENV)/test.stamp
	$(BIN)/python -m bench $(BENCH_ARGS)

# Recordings: the folder WAKEFUL_CORPUS names, else the small ones of tests/corpus.
accuracy: $(VENV)/test.stamp
	$(BIN)/python -m bench.accuracy --write docs/accuracy.md $(ACCURACY_ARGS)

# The rules of effects with their shares over recorded calls; recordings as above.
effects: $(VENV)/test.stamp
	$(BIN)/python -m bench.effects --write docs/reference/effects.md

# Every point at which a program with a journal can be cut off; some ten minutes. `make test` takes a spread of them.
crash: $(VENV)/test.stamp
	$(BIN)/python -m bench.recovery --write docs/reference/recovery-tried.md

# Every attack in its long form, about five minutes; `make test` runs the short form.
redteam: $(VENV)/test.stamp
	$(BIN)/python -m bench.redteam --write docs/redteam.md

docs: $(VENV)/test.stamp
	$(BIN)/python -m bench.reference
	$(BIN)/python -m bench.plugin

# The moving picture of the README, recorded from `wakeful demo` in a terminal.
picture: $(VENV)/test.stamp
	$(BIN)/python -m bench.moving_picture --write docs/images/demo.svg

# The hashes of the pinned requirements, from the index that pip is configured to use.
hashes: $(VENV)/test.stamp
	$(BIN)/python -m bench.pins

# What Wakeful runs with: an SBOM in CycloneDX, and the licences in NOTICE.
sbom: $(VENV)/test.stamp
	$(BIN)/python -m bench.sbom --write dist/sbom.cdx.json --notice NOTICE

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis dist

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Wakeful needs Python 3.11 or newer")'
	@echo "1/3 creating a virtualenv in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# Every file is checked against a hash. Without build isolation, for that would fetch the builder unchecked. The files
# name every package that is needed, and Python compiles what is used: --no-deps and --no-compile take half the time.
$(VENV)/run.stamp: $(VENV)/bin/python pyproject.toml requirements/build.txt requirements/run.txt
	@echo "2/3 installing $$(cat requirements/build.txt requirements/run.txt | grep -c ==) packages, each checked against its hash"
	@$(PIP) install --no-deps --no-compile --require-hashes -r requirements/build.txt -r requirements/run.txt
	@echo "3/3 installing Wakeful from this folder"
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/extras.stamp: $(VENV)/run.stamp requirements/extras.txt
	@echo "installing the extras: $$(grep -c == requirements/extras.txt) packages"
	@$(PIP) install --no-deps --no-compile --require-hashes -r requirements/extras.txt
	@touch $@

$(VENV)/test.stamp: $(VENV)/extras.stamp requirements/test.txt
	@echo "installing what the tests need"
	@$(PIP) install --require-hashes -r requirements/test.txt
	@touch $@
