# Every target sets itself up: it needs Python >= 3.11 (with venv), make and a package index. Only `e2e` needs more.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTS_READY := $(VENV)/.tests-ready
# Python keeps its bytecode, whatever the shell says: else each of the hundreds of programs that tests start compiles all of Dray.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help up test test-all programs skips mutants coverage check tools e2e campaign bench format proto docs audit sbom manifests image lock venv clean

help:  ## Show the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

up: $(READY)  ## Start Dray on this machine, until Ctrl-C (ARGS="--sim laptop" simulates devices)
	@$(BIN)/dray up $(ARGS)

PARALLEL = $(BIN)/python -m pytest tests -n auto --dist worksteal --durations 10

test: $(TESTS_READY)  ## The fast tests: no root, no Go, three minutes on two cores
	$(PARALLEL) --tier fast --record build/tests/fast.json $(ARGS)

test-all: test  ## All tests that need no root and no Go: those that start programs, too
	@$(MAKE) --no-print-directory programs

programs: $(TESTS_READY)
	$(PARALLEL) --tier programs --record build/tests/programs.json $(ARGS)

skips: $(READY)  ## After the tests as root: what they skipped as a normal user; what is left must be in tests/skips.txt
	$(BIN)/python -m tests.skips

mutants: $(READY)  ## Whether tests notice faults, in the rooms where a fault costs a device (ROOMS="allocation" for one)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-mutants.lock
	$(BIN)/python -m tests.mutants run $(ROOMS)

coverage: $(TESTS_READY)  ## Which branches `make test-all` runs, by room (ARGS="--open dra/claims" lists those it does not)
	rm -rf build/coverage && mkdir -p build/coverage
	-$(BIN)/coverage run -m pytest tests -n auto --dist worksteal -q --tier fast --tier programs
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage json --quiet -o build/coverage/rooms.json
	$(BIN)/python -m tests.coverage_by_room $(ARGS)

check: $(READY)  ## Format, lint, types, import contract
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Go's compilers collect their garbage less often: a first build of Kubernetes is sooner done, with memory that is there.
tools: export GOGC := 400
tools: $(READY)  ## What `make e2e` builds first, kept in ~/.cache: Kubernetes, a machine, a browser, programs to compare with
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-e2e.lock
	$(BIN)/python -m dray.testing.browser install
	$(BIN)/python -m dray.testing.kubernetes install
	$(BIN)/python -m dray.testing.machine install
	$(BIN)/python -m tests.e2e.builds

e2e: tools  ## Real Kubernetes and real hardware: needs root and Go
	$(BIN)/python -m pytest tests/e2e -n 5 --durations 10 --record build/tests/e2e.json $(ARGS)

# SLICE=k/n runs the k-th of n equal shares. BOX=180 tries other cases than `make test`
# for so many seconds, without e2e. SEED=N chooses the cases. A tier that fails does not keep the next from its cases.
SEED ?= 0
campaign: $(TESTS_READY)  ## The long fuzz, crash and soak runs: SLICE=k/n for a share, BOX=180 for three minutes of them
ifdef BOX
	DRAY_SEED=$(SEED) $(PARALLEL) --tier fast --tier programs --random-cases --box $(BOX) $(ARGS)
else
	DRAY_CAMPAIGN=1 DRAY_SLICE=$(SLICE) DRAY_SEED=$(SEED) $(MAKE) -k test programs e2e ARGS="--random-cases -o faulthandler_timeout=3600 $(ARGS)"
endif

bench: $(READY)  ## The benchmarks, with peers side by side
	$(BIN)/dray bench

format: $(READY)  ## Format the code and sort imports
	$(BIN)/ruff check --fix --unsafe-fixes --select I .
	$(BIN)/ruff format .

proto: $(READY)  ## Generate src/dray/wire/gen from the .proto files
	$(BIN)/python -m dray.wire.generate

docs: $(READY)  ## Write the reference and plots, and the site to build/site
	$(BIN)/python -m docs.make site

audit: $(READY)  ## Whether pinned packages are sound: hashes, withdrawn versions, advisories
	$(BIN)/python -m deploy.supply.audit

sbom: $(READY)  ## The packages that the wheel needs, to build/sbom.cdx.json
	$(BIN)/python -m deploy.supply.sbom

manifests: $(READY)  ## Render deploy/manifests from the chart: needs Go
	$(BIN)/python -m tests.e2e.deploy_manifests

# DEBIAN=…@sha256:… and SNAPSHOT=20260115T000000Z are needed: a released image can be made again.
BUILDER ?= podman
image:  ## Build the image: DEBIAN=docker.io/library/debian@sha256:… SNAPSHOT=20260115T000000Z
	@sh deploy/pinned.sh "$(DEBIAN)" "$(SNAPSHOT)" "$(UNPINNED)"
	$(BUILDER) build --build-arg DEBIAN="$(DEBIAN)" --build-arg SNAPSHOT="$(SNAPSHOT)" --build-arg UNPINNED="$(UNPINNED)" \
	    -t "$(or $(IMAGE),localhost/dray:$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml))$(if $(UNPINNED),-unpinned)" .

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-header

lock: $(READY)  ## Pin the newest allowed versions in the lock files
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-lock.lock
	$(COMPILE) --upgrade --group lock -c requirements.lock -o requirements-lock.lock
	$(COMPILE) --upgrade --group dev pyproject.toml -o requirements.lock
	$(COMPILE) --upgrade --group e2e -c requirements.lock -o requirements-e2e.lock
	$(COMPILE) --upgrade --group mutants -c requirements.lock -o requirements-mutants.lock
	$(BIN)/python -m dray.testing.image --lock deploy/requirements.lock

venv: $(TESTS_READY)  ## Make the virtual environment only

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Dray needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=/path/to/python3.11.")'
	@test -x $(BIN)/python || { echo "making a virtual environment in $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing the packages of requirements.lock (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@echo "compiling bytecode"
	@$(BIN)/python -m compileall -q -x '/test_' src tests
	@touch $@

# pytest compiles tests in its own way, and each of its workers would do so for itself.
$(TESTS_READY): $(READY)
	@echo "compiling the tests"
	@for tier in fast programs; do $(BIN)/python -m pytest tests --tier $$tier --collect-only -qq > /dev/null & done; wait
	@touch $@

clean:  ## Remove what the targets made
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
