# Two commands do all set-up on a fresh machine: `make breadth` runs the main job, `make test` the tests.
# Needed beforehand: Python 3.11 or newer with venv and headers, g++ 12 or newer, make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN ?= runs/breadth
STUDY ?= runs/study

CXX ?= g++

# every protocol of the study, the short jobs first
STUDY_JOBS := replay canonical propagation post_mhc persistent_state intermediates persistent sweep event_direction breadth

# where results.json and the plots of `make bench` go, and a Python with the peers' packages (extra bench-peers)
OUT ?= build/benchmarks/results
PEERS ?= $(BIN)/python

.PHONY: breadth study test test-all lint cpp-test oracle bench bench-peers clean

breadth: $(VENV)/installed
	$(BIN)/runner submit jobs/breadth.yaml --run-dir $(RUN)

# Every job in turn, then the ledger of what holds. A run that was stopped goes on; a finished one is only reported.
study: $(VENV)/installed
	set -e; for job in $(STUDY_JOBS); do $(BIN)/runner submit jobs/$$job.yaml --run-dir $(STUDY)/$$job; done
	$(BIN)/runner audit --published $(STUDY_JOBS:%=$(STUDY)/%)

test: $(VENV)/installed
	$(BIN)/python -m pytest -m "not slow"

# everything, the long kill tests included
test-all: $(VENV)/installed
	$(BIN)/python -m pytest

# the comparison with transformers and torch, which it installs
oracle: $(VENV)/installed-oracle
	$(BIN)/python -m pytest -m oracle

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(CXX) -std=c++20 -fsyntax-only -Wall -Wextra -Werror -DRUNNER_BUILD_ID='""' $$($(BIN)/python -m pybind11 --includes) -Ikernels/src kernels/src/bindings/*.cpp
	$(CXX) -std=c++20 -fsyntax-only -Wall -Wextra -Werror -Ikernels/src -Ibenchmarks/native benchmarks/native/*.cpp

# What the machine could do, what we do with it, what others do: a table, results.json and plots (docs/performance.md). On an idle machine.
bench: $(VENV)/installed-bench
	$(BIN)/python -m benchmarks --out $(OUT) --peers-python $(PEERS)

# the peers, into the same environment; llama.cpp is compiled for this CPU, which takes minutes
bench-peers: $(VENV)/installed-bench
	CMAKE_ARGS="-DGGML_NATIVE=ON" $(BIN)/pip install --quiet --no-binary llama-cpp-python --editable '.[test,lint,bench,bench-peers]'

# C++ tests of the core, without Python, under the address and undefined-behaviour sanitizers
cpp-test:
	$(MAKE) -C tests/kernels/cpp -j2

clean:
	rm -rf build $(VENV) kernels/*.so *.egg-info

SOURCES := setup.cfg setup.py pyproject.toml $(shell find kernels/src -type f)

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

# Editable, so that the tree is what runs; the extension is compiled into kernels/. One install for all but the oracle's large packages,
# since each install compiles the extension anew.
$(VENV)/installed: $(VENV)/bin/pip $(SOURCES)
	$(BIN)/pip install --quiet --editable '.[test,lint]'
	touch $@

$(VENV)/installed-bench: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[test,lint,bench]'
	touch $@

$(VENV)/installed-oracle: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[test,lint,oracle]'
	touch $@
