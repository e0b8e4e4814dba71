# Every target sets up its own virtual environment in .venv; Python 3.11 or newer and make are all it needs.
#
#   make demo     publish the bundled table, ask it questions, show the truth beside every answer
#   make test     the tests of a few minutes: before each commit
#   make test-all  those, then the slow ones: repeated releases, Spark, every path of the pages
#   make test-processors  golden, contract and frozen tests as other processors compute
#   make mutants  thirty faults of the source, one after the other: `make test` must see each
#   make check    format, lint, strict types, import rules, no private names of other packages
#   make bench    the budgets of docs/performance.md, measured here   (BENCH="--rows 10000000 --only publish")
#   make size     lines and files of src by room, and what a publication and a question run through
#   make audit    kills, faults and fuzzers on publishing and reading      (AUDIT="--record docs/campaigns.md")
#   make docs     the documentation as pages in site/, complete without a network
#   make package  source archive and wheel in dist/, checked
#   make golden   rewrite the expected outputs in tests/ and docs/; read the diff
#   make clean    remove what the targets made
#
# EXTRAS=test,report,web,files,databases,odbc,spark sets up ODBC and Spark too (400 MB); their tests are skipped without.

PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
SOURCES := src tests benchmarks papers tools examples
PYTEST ?=
EXTRAS ?= test,report,web,files,databases
comma := ,
# Files that say which extras are installed: what tests need, and what checking, building and the documentation need.
READY := .venv/.ready-$(subst $(comma),-,$(EXTRAS))
TOOLS := .venv/.ready-test-dev-docs-report-web-files-databases

.PHONY: demo compiled test test-all test-processors mutants check bench size audit docs package golden clean setup
.DELETE_ON_ERROR:

demo: $(READY)
	$(BIN)/sfumato demo

# The workers share the cores out among themselves: linear algebra takes one thread in each.
test test-all test-processors mutants: export OMP_NUM_THREADS ?= 1

# Tests wait for browsers, servers and processes a quarter of the time: three workers keep two cores busy.
WORKERS ?= $(shell echo $$(( ($$(getconf _NPROCESSORS_ONLN) * 3 + 1) / 2 )))
RUN_TESTS = $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations=20

# Tests start hundreds of processes: without compiled modules, or where PYTHONDONTWRITEBYTECODE is set, each would compile
# ours again.
compiled: $(READY)
	@$(BIN)/python -m compileall -q src

test: compiled
	$(RUN_TESTS) -m "not slow" $(PYTEST)

test-all: test
	$(RUN_TESTS) -m slow $(PYTEST)

# Last digits depend on the processor: on its linear algebra (OPENBLAS_CORETYPE) and on numpy's loops.
PORTABLE := tests/sql/test_golden.py tests/contract tests/frozen
test-processors: compiled
	OPENBLAS_CORETYPE=Nehalem $(RUN_TESTS) -m "not slow" $(PORTABLE)
	OPENBLAS_CORETYPE=Sandybridge NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4" $(RUN_TESTS) -m "not slow" $(PORTABLE)
	$(BIN)/python -m tools.busy_cores $(RUN_TESTS) -m "not slow" $(PORTABLE) tests/web/test_security.py tests/web/test_workers.py

mutants: $(READY)
	$(BIN)/python -m tests.mutants

check: $(TOOLS)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.check_foreign_names src

bench: $(READY)
	$(BIN)/python -m benchmarks $(BENCH)

size: $(READY)
	$(BIN)/python -m tools.size

audit: $(READY)
	$(BIN)/python -m benchmarks.campaigns $(AUDIT)

docs: $(TOOLS)
	$(BIN)/python -m tools.build_site site

package: $(TOOLS)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

golden: $(READY)
	$(BIN)/python -m pytest -q --update-golden tests/golden tests/docs tests/sql tests/unit/test_schema.py $(PYTEST)

setup: $(READY)

.venv/.ready-%: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer found; name one with PYTHON=/path/to/python3" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(subst -,$(comma),$*)]'
	@touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist site demo-release
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
