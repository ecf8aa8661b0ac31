# Everything is built into one virtual environment, .venv, at the versions
# pinned in requirements/dev.txt. A fresh machine needs a stable Rust toolchain,
# a C compiler, Python >= 3.11 and make; nothing else is installed outside .venv.
#
#   make demo    build for speed, make an hour of recordings, import, find, draw
#   make test    every test, Rust and Python
#   make wheel   a wheel and a source distribution into dist/, tried in an empty environment of each Python at hand
#   make lint    formatting, lints and types of both
#   make generate  methods of plans and the operator reference, from the operators' declarations
#   make bench   measured ratios against bare loops and peers
#   make dissertation  docs/dissertation.md, of simulations and of what `make -C bench tune` measured last
#   make fuzz    every fuzz target for FUZZ_SECONDS (60)
#   make s3-server  the S3 server that tests of stores in object storage start, into target/tools (two minutes, once)
#   make azure-server  the server of Azure blobs that they start, into target/tools; needs npm
#   make soak    a live feed with faults for SOAK_SECONDS (3600)
#   make attack  killed writers, damaged stores, repairs, damaged files, odd tables, command lines, a hostile feed; ATTACK_SEED

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements/dev.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check
FUZZ_SECONDS ?= 60
TEST_PROCESSES ?= 3
SOAK_SECONDS ?= 3600
# How often each attack is made, and where chance begins; empty: another seed each time, which is printed.
ATTACK_LIVES ?= 200
ATTACK_DAMAGES ?= 600
ATTACK_IMPORTS ?= 500
ATTACK_CSVS ?= 900
ATTACK_REPAIRS ?= 600
ATTACK_COMMANDS ?= 1000
ATTACK_FEED_SECONDS ?= 3600
ATTACK_SEED ?=
DEMO_DIR ?= demo

# One profile and one target folder for the extension that Python tests load and
# for the Rust tests, so that no crate is compiled twice for `make test`.
TEST_PROFILE := tested
# The thin binding crate has no tests of its own, since as an extension module it links no interpreter. It is named all
# the same: with it dependencies have the features that the extension asks for, and are compiled once for both.
CARGO_TEST := cargo test --locked --workspace --profile $(TEST_PROFILE)

# As .cargo/config.toml says for builds without maturin.
export PYO3_CONFIG_FILE := $(abspath crates/py/pyo3-config.txt)
export PYO3_BUILD_EXTENSION_MODULE := 1

.PHONY: help demo wheel test-wheel test lint generate bench dissertation fuzz soak attack fmt lock clean
.PHONY: s3-server azure-server build-release build-test build-example test-rust test-python test-python-together test-python-alone
.PHONY: lint-rust lint-python

help:
	@sed -n 's/^#   \(make .*\)/\1/p' Makefile

# --- environment --------------------------------------------------------------

# A virtual environment without pip is what Debian gives where python3-venv is
# missing; say so instead of failing later.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: $(PYTHON) is older than 3.11; set PYTHON=python3.11 or newer" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "make: $(PYTHON) cannot make a virtual environment; install python3-venv" >&2; exit 2; }

# What building, the demo and the demo on a user's own files (SEED, audio, tables)
# need, from the same pinned versions.
$(VENV)/.demo-env: $(LOCK) | $(BIN)/python
	$(PIP) install -q --only-binary :all: -c $(LOCK) maturin numpy cloudpickle matplotlib pymseed soundfile pyarrow
	touch $@

# The same environment with every test partner.
$(VENV)/.test-env: $(LOCK) | $(BIN)/python
	$(PIP) install -q --only-binary :all: -r $(LOCK)
	touch $@ $(VENV)/.demo-env

DEVELOP = VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --locked

build-release: $(VENV)/.demo-env
	$(DEVELOP) --release

build-test: $(VENV)/.test-env
	$(DEVELOP) --profile $(TEST_PROFILE)

# An extension module with an operator of another crate, for tests/plan/test_rust_operators.py.
build-example:
	cargo build --locked --profile $(TEST_PROFILE) -p isochrony-native -p isochrony-example-operators

# --- the main job -------------------------------------------------------------

demo: build-release
	$(BIN)/isochrony demo --dir $(DEMO_DIR)

# --- packages -----------------------------------------------------------------

# The wheel is built of the unpacked source distribution, so both are known to be whole. Its tag names the oldest glibc
# with which it runs, which is about this machine's: build where the oldest one is.
wheel: $(VENV)/.demo-env
	rm -rf dist
	$(BIN)/maturin sdist --out dist
	mkdir dist/source && tar --extract --gzip --strip-components=1 --directory dist/source --file dist/isochrony-*.tar.gz
	cd dist/source && CARGO_TARGET_DIR=$(abspath target) PATH="$(abspath $(BIN)):$$PATH" \
	  maturin build --release --locked --out ..
	rm -rf dist/source
	$(BIN)/python tools/try_wheel.py dist/*

# The same of what the tests were built of, for this machine's glibc, which costs no compiling.
test-wheel: build-test
	rm -rf target/wheels
	$(BIN)/maturin sdist --out target/wheels
	$(BIN)/maturin build --locked --profile $(TEST_PROFILE) --out target/wheels
	$(BIN)/python tools/try_wheel.py target/wheels/*

# --- tests --------------------------------------------------------------------

test: test-rust test-python

test-rust:
	$(CARGO_TEST) --no-fail-fast

# File by file in two processes, since most tests use one core; then those whose result depends on how busy the machine is.
test-python:
	@failed=0; \
	$(MAKE) --no-print-directory test-python-together || failed=1; \
	$(MAKE) --no-print-directory test-python-alone || failed=1; \
	exit $$failed

# Cargo would wait for the lock of a build beside it: with BUILT=1 what is there is tested.
ifndef BUILT
test-python-together test-python-alone: build-test build-example
endif

test-python-together:
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile -m "not alone"

# Only files that have such tests: to collect all of them takes longer than some of these run.
test-python-alone:
	$(BIN)/python -m pytest -m alone $(shell grep --recursive --files-with-matches --include='test_*.py' 'mark\.alone' tests)

# A server of objects, of a version that is known to serve ranges; tests that need it skip where it is missing. Its build
# is not shared with this workspace's, whose lock file it does not know.
S3_SERVER_VERSION := 0.14.1
# A file that says which version was built, so that another one is built in its place.
S3_SERVER_BUILT := target/tools/s3s-fs-$(S3_SERVER_VERSION).built

CHECKSUMS := crc-fast md-5 sha1 sha2

s3-server: $(S3_SERVER_BUILT)

# Not optimised but for checksums, so that it is built sooner: tests do not wait for it.
$(S3_SERVER_BUILT):
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_LTO=off \
	cargo $(foreach crate,$(CHECKSUMS),--config 'profile.release.package.$(crate).opt-level=3') \
	  install s3s-fs --version $(S3_SERVER_VERSION) --features binary --locked --quiet \
	  --root target/tools --target-dir target/tools/build
	rm -rf target/tools/build target/tools/s3s-fs-*.built
	touch $@

# Azurite, Microsoft's own; tests that need it skip where it is missing.
AZURE_SERVER_VERSION := 3.35.0
AZURE_SERVER_BUILT := target/tools/azurite-$(AZURE_SERVER_VERSION).built

azure-server: $(AZURE_SERVER_BUILT)

$(AZURE_SERVER_BUILT):
	npm install --silent --no-audit --no-fund --prefix target/tools/azurite azurite@$(AZURE_SERVER_VERSION)
	rm -f target/tools/azurite-*.built
	touch $@

# --- lint ---------------------------------------------------------------------

lint: lint-rust lint-python

# In a folder of its own clippy need not wait for a build beside it. In that of the tests it shares build scripts and
# macros with them, which is less to compile from nothing.
CLIPPY_DIR ?= target/clippy

# `fuzz` has a lock file of its own, which a new dependency of a crate makes stale.
lint-rust:
	$(PYTHON) tools/check_portability.py
	cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
	$(PYTHON) tools/compare_features.py
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --profile $(TEST_PROFILE) --target-dir $(CLIPPY_DIR) -- -D warnings

# stubtest imports the extension, so the stubs are checked against what was built.
lint-python: build-test
	$(BIN)/ruff check python tests bench studies tools
	$(BIN)/ruff format --check python tests bench studies tools
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest isochrony._native \
	  --allowlist tests/stubtest_allowlist.txt --ignore-unused-allowlist

fmt: $(VENV)/.test-env
	cargo fmt --all
	$(BIN)/ruff check --fix python tests bench studies tools
	$(BIN)/ruff format python tests bench studies tools

generate: build-test
	$(BIN)/python tools/generate.py

# --- measuring and fuzzing ----------------------------------------------------

bench: $(VENV)/.test-env build-release
	$(MAKE) -C bench PYTHON=$(abspath $(BIN)/python)

dissertation: $(VENV)/.demo-env
	$(MAKE) -C bench PYTHON=$(abspath $(BIN)/python) dissertation

soak: build-test
	$(BIN)/python tests/soak.py $(SOAK_SECONDS)
	$(BIN)/python tests/hostile_feed.py $(SOAK_SECONDS)

# All of them, also where one fails: each prints what it found and its seed.
attack: build-test
	@failed=0; \
	$(BIN)/python tests/attack/lives.py $(ATTACK_LIVES) $(ATTACK_SEED) || failed=1; \
	$(BIN)/python tests/attack/damages.py $(ATTACK_DAMAGES) $(ATTACK_SEED) || failed=1; \
	$(BIN)/python tests/attack/repairs.py $(ATTACK_REPAIRS) $(ATTACK_SEED) || failed=1; \
	$(BIN)/python tests/attack/imports.py $(ATTACK_IMPORTS) $(ATTACK_SEED) || failed=1; \
	$(BIN)/python tests/attack/tables.py $(ATTACK_CSVS) $(ATTACK_SEED) || failed=1; \
	$(BIN)/python tests/attack/commands.py $(ATTACK_COMMANDS) $(ATTACK_SEED) || failed=1; \
	$(BIN)/python tests/hostile_feed.py $(ATTACK_FEED_SECONDS) $(ATTACK_SEED) || failed=1; \
	exit $$failed

fuzz:
	$(MAKE) -C fuzz FUZZ_SECONDS=$(FUZZ_SECONDS)

# --- upkeep -------------------------------------------------------------------

lock: | $(BIN)/python
	$(PIP) install -q uv
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-emit-index-url --no-header \
	  --upgrade requirements/dev.in -o $(LOCK)

clean:
	rm -rf $(VENV) demo dist .mypy_cache .ruff_cache .pytest_cache
