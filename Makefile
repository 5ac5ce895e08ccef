# Needs make and Python 3.11+. A C compiler makes proxy/core/wire fast, and is not required.
SHELL := /bin/sh
.DELETE_ON_ERROR:
.SUFFIXES:

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
ARGS ?=
export HYPOTHESIS_PROFILE

.PHONY: run test peers dev compiled lint imports type bench soak fuzz check proto lock clean

run: $(VENV)/built
	$(BIN)/whosegpu demo $(ARGS)

test: dev
	$(BIN)/python -m pytest $(ARGS)

peers: $(VENV)/created
	$(BIN)/python tests/peers/build.py $(ARGS)

# Everything that the tests and checks need, and the package itself, editable.
dev: $(VENV)/dev $(VENV)/built

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint --max-line-length 120 $(wildcard */core/*.pxd)

imports: $(VENV)/dev
	$(BIN)/lint-imports

type: $(VENV)/dev
	$(BIN)/mypy

bench: dev
	$(BIN)/python -m tests.bench $(ARGS)

# A thousand lives that end with kill -9, and five minutes beside a dead tenant; SEED=N repeats the lives of an earlier run.
soak: export SEED := $(SEED)
soak: dev
	$(BIN)/python -m tests.faults $(ARGS)

fuzz: HYPOTHESIS_PROFILE = fuzz
fuzz: dev
	$(BIN)/python -m pytest -m fuzz --timeout 3600 $(ARGS)

# What CI runs. WHOSEGPU_PEERS=required, from the caller, makes an absent peer a failure.
check: export REQUIRE_CYTHON = 1
check: HYPOTHESIS_PROFILE = ci
check: compiled lint imports type
	$(BIN)/python -m pytest $(ARGS)

compiled: dev
	REQUIRE_CYTHON=1 $(BIN)/python setup.py --quiet build_ext --inplace

# Writes the messages' Python modules anew from their .proto files.
proto: $(VENV)/dev
	$(BIN)/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. $(wildcard proto/*/*.proto)

# Writes the lock files anew; UPGRADE=--upgrade takes the newest versions.
PIP_COMPILE = cd requirements && ../$(BIN)/pip-compile --quiet --no-config $(UPGRADE) --generate-hashes --allow-unsafe --strip-extras \
	--no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options
lock: $(VENV)/dev
	$(PIP_COMPILE) --output-file runtime.txt runtime.in
	$(PIP_COMPILE) --output-file build.txt build.in
	$(PIP_COMPILE) --constraint runtime.txt --constraint build.txt --output-file dev.txt dev.in

clean:
	rm -rf $(VENV) build dist *.egg-info proxy/core/*.so

$(VENV)/created:
	@test -n "$(PYTHON)" || { echo "whosegpu needs Python 3.11 or newer; on Debian or Ubuntu: apt install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments; on Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "whosegpu: creating $(VENV) with $$($(PYTHON) --version)"
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: requirements/runtime.txt requirements/build.txt | $(VENV)/created
	$(PIP) install --require-hashes -r requirements/runtime.txt -r requirements/build.txt
	@touch $@

$(VENV)/dev: requirements/dev.txt | $(VENV)/installed
	$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

# Compiles the hot modules where it can; an older build would hide the source, so it goes first.
$(VENV)/built: pyproject.toml setup.py $(wildcard proxy/core/wire.p* proxy/core/fields.p*) $(VENV)/installed
	@rm -f proxy/core/wire.*.so proxy/core/fields.*.so
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@ls proxy/core/wire.*.so >/dev/null 2>&1 || \
		echo "whosegpu: proxy/core/wire is not compiled (no C compiler?) and runs as plain Python: same answers, slower"
	@touch $@
