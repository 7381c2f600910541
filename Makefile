SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

export LLAMA_OPERATOR_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/llama-operator
export UV_SYSTEM_CERTS := true
# llama-cpp-python is installed without its native code: libllama is built once, by the Dockerfile.
export CMAKE_ARGS := -DLLAMA_BUILD=OFF

export PYTHONPATH := .:operator:runtime:tools

PYTHON := .venv/bin/python
TESTCLUSTER = $$(tests/cluster/build --quiet)
PYTEST = LLAMA_CPP_LIB_PATH="$$($(PYTHON) tools/images.py libllama --quiet)" \
	LLAMA_TEST_MODEL="$$($(PYTHON) tools/model.py --quiet)" $(PYTHON) -m pytest

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: .venv/locked ## A real cluster, the operator, one LlamaDeployment, an answer (KUBE_CONTEXT=name: on your cluster)
	@$(PYTHON) tools/demo.py $(if $(KUBE_CONTEXT),--context $(KUBE_CONTEXT)) $(if $(REGISTRY),--registry $(REGISTRY))

.PHONY: test
test: lint native cluster-test ## Lint, types, unit, integration, end to end: what CI runs
	@$(PYTEST) -m "not long"

.PHONY: test-long
test-long: native ## The tests that take ten minutes or more each
	@$(PYTEST) -m long

.PHONY: unit
unit: .venv/locked ## The tests that need no cluster
	@$(PYTEST) -m "not cluster and not numa_vm and not long"

.PHONY: cluster-test
cluster-test: native ## The test cluster's own Go tests
	@cd tests/cluster && GOCACHE="$(LLAMA_OPERATOR_CACHE)/go-build" CGO_ENABLED=0 go test -vet=off ./...

.PHONY: chaos
chaos: native ## Kill the operator at every act, stop the API server and etcd, break the way (10 minutes)
	@$(PYTEST) tests/chaos

.PHONY: e2e
e2e: native ## End to end on node-0 and numa-node
	@$(PYTEST) -m "not long" tests/e2e

.PHONY: e2e-numa
e2e-numa: native ## End to end on numa-node alone
	@$(PYTEST) -m "not long" tests/e2e/test_numa_node.py tests/numa_vm

.PHONY: chart-test
chart-test: native ## The chart against the real API server
	@$(PYTEST) tests/chart

.PHONY: lint
lint: .venv/locked ## Format, lint, types, layers, generated files
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/ruff check --quiet .
	@.venv/bin/mypy -p llama_operator -p llama_runtime
	@.venv/bin/mypy tools tests
	@.venv/bin/lint-imports
	@$(PYTHON) tools/generate.py --check

.PHONY: generate
generate: .venv/locked ## Write the CRD, its reference, the metrics page and the chart's schema
	@$(PYTHON) tools/generate.py

.PHONY: native
native: .venv/locked ## Build what is slow into the cache: the cluster's binary, libllama, the images, the model
	@tests/cluster/build
	@$(PYTHON) tools/images.py
	@$(PYTHON) tools/images.py libllama
	@$(PYTHON) tools/model.py

.PHONY: images
images: .venv/locked ## Build the images llama-operator and llama-runtime
	@$(PYTHON) tools/images.py

.PHONY: cluster-up
cluster-up: ## Start the control plane and this machine as node-0
	@"$(TESTCLUSTER)" node-up

.PHONY: numa-node-up
numa-node-up: cluster-up ## Add numa-node, a virtual machine with two NUMA nodes
	@"$(TESTCLUSTER)" numa-node-up

.PHONY: cluster-down
cluster-down: ## Stop the cluster and leave nothing behind
	@"$(TESTCLUSTER)" down

.PHONY: bench-runtime
bench-runtime: native ## Ours, llama-server and llama_cpp.server side by side (about an hour)
	@LLAMA_CPP_LIB_PATH="$$($(PYTHON) tools/images.py libllama --quiet)" \
		LLAMA_TEST_MODEL="$$($(PYTHON) tools/model.py --quiet)" $(PYTHON) -m tests.bench.runtime $(ARGS)

.PHONY: soak
soak: native ## The runtime under mixed traffic, both layouts (30 minutes; ARGS="--minutes N")
	@LLAMA_CPP_LIB_PATH="$$($(PYTHON) tools/images.py libllama --quiet)" \
		LLAMA_TEST_MODEL="$$($(PYTHON) tools/model.py --quiet)" $(PYTHON) -m tests.bench.soak $(ARGS)

.PHONY: bench-operator
bench-operator: native ## The operator with 1,000 and 5,000 resources (about 20 minutes)
	@PYTHONPATH=.:operator $(PYTHON) -m tests.bench.operator $(ARGS)

.PHONY: bench-numa
bench-numa: native ## Decode and load time, memory local against remote (needs two real NUMA nodes)
	@LLAMA_CPP_LIB_PATH="$$($(PYTHON) tools/images.py libllama --quiet)" \
		LLAMA_TEST_MODEL="$$($(PYTHON) tools/model.py --quiet)" $(PYTHON) -m tests.bench.numa $(ARGS)

.PHONY: bench-restarts
bench-restarts: native ## Broken streams, downtime, and what a restart gives and keeps, on node-0 (RUNS=5)
	@LLAMA_CPP_LIB_PATH="$$($(PYTHON) tools/images.py libllama --quiet)" \
		LLAMA_TEST_MODEL="$$($(PYTHON) tools/model.py --quiet)" \
		$(PYTHON) -m pytest -q -s --timeout=0 tests/bench/restarts/bench_restarts.py

.PHONY: lock
lock: .venv/locked ## Resolve the dependencies of pyproject.toml into requirements/
	@for extra in operator runtime; do \
		$(UV_COMPILE) pyproject.toml --extra $$extra -o requirements/$$extra.txt; done
	@$(UV_COMPILE) pyproject.toml --extra operator --extra runtime --group dev -o requirements/dev.txt
	@$(UV_COMPILE) requirements/build.in -o requirements/build.txt
UV_COMPILE = UV_CUSTOM_COMPILE_COMMAND="make lock" .venv/bin/uv pip compile --quiet --universal \
	--generate-hashes --no-emit-index-url --python-version 3.11

.PHONY: clean
clean: cluster-down ## Stop the cluster and remove what make made here (the cache stays)
	@rm -rf build .venv dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/locked: requirements/dev.txt
	@echo "Python packages into .venv (usually 15 s, a minute the first time)"
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed.")'
	@test -x $(PYTHON) || python3 -m venv .venv || \
		{ echo "python3 -m venv failed: on Debian, apt-get install python3-venv." >&2; exit 1; }
	@test -x .venv/bin/uv || .venv/bin/pip install --quiet --disable-pip-version-check \
		"$$(sed -n 's/^\(uv==[^ ;]*\).*/\1/p' requirements/dev.txt)"
	@.venv/bin/uv pip sync --quiet --require-hashes requirements/dev.txt
	@touch $@
