# Every verb is one line that a person could type; the first one used makes .venv by itself, and
# verbs that need Go programs build them, with a toolchain of their own if there is none.
PYTHON ?= python3
BIN := .venv/bin
COUNT ?= 200
SEED ?= 1
SEEDS ?= 1
WORKERS ?= auto
NEAR := not e2e and not smoke and not attack
PIN := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
export OPENBLAS_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help demo test quick check smoke attack format golden parity crds docs sim cluster cluster-down image e2e bench lock

help: ## this list
	@grep -E '^[a-z0-9-]+:.*## ' Makefile | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 14

demo: .venv/ready ## a simulated cluster and the real components, live, for a minute
	$(BIN)/trimtab demo

test: .venv/ready ## every test on all cores, with branch coverage of core and api; names the slowest
	$(BIN)/pytest -q -n $(WORKERS) --dist load --maxschedchunk 1 -m "long and $(NEAR)" --durations 5 && $(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "not long and $(NEAR)" --durations 15 --cov=trimtab.core --cov=trimtab.api --cov-branch --cov-fail-under=95

quick: .venv/ready ## the tests nearest to what changed against main, in under a minute
	$(BIN)/python tests/quick.py

check: .venv/ready ## format, lint, types, layers
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports

smoke: .venv/ready ## whole paths through real components on a real API server, in minutes
	$(BIN)/pytest -m smoke tests/smoke

attack: .venv/ready ## attacks on a webhook process on loopback, with memory and latency as figures
	$(BIN)/pytest -m attack tests/attack

format: .venv/ready ## rewrite files as `check` wants them
	$(BIN)/ruff format . && $(BIN)/ruff check --fix-only .

golden: .venv/ready ## compute every recorded answer anew with the original
	$(BIN)/python -m oracle --rewrite tests/golden

parity: .venv/ready ## draw fresh cases, ask the original, check our answers
	$(BIN)/python -m oracle --count $(COUNT) --seed $(SEED) --out .parity && $(BIN)/pytest tests/golden --golden-dir .parity

crds: .venv/ready ## copy the CRDs of src/trimtab/api/crds to deploy and the chart
	$(BIN)/trimtab crds | tee deploy/crds.yaml > charts/trimtab/files/crds.yaml

manifests: .venv/ready ## render the chart into deploy, and its table of values
	$(BIN)/python -m rig.chart

docs: .venv/ready ## write docs/flags.md, docs/metrics.md and the dashboard from the code
	$(BIN)/python -m reference

sim: .venv/ready ## bad days in a simulated cluster: SEED=7 replays one, SEEDS=1000 runs many
	$(BIN)/trimtab simulate --seed $(SEED) --seeds $(SEEDS)

cluster: .venv/ready ## a real cluster on loopback with a fake node, until Ctrl-C
	$(BIN)/python -m rig

cluster-down: .venv/ready ## end the cluster that runs in another shell
	$(BIN)/python -m rig down

image: .venv/ready ## the image of all components as dist/trimtab-image.tar, without a container engine
	$(BIN)/python -m rig image dist/trimtab-image.tar

e2e: .venv/ready ## the tests that need a real control plane or the original
	$(BIN)/pytest -m e2e

bench: .venv/ready ## two hours and more: measure beside the original, as ratios; fails where one got worse
	$(BIN)/python -m bench $(BENCH)

lock: .venv/ready ## pin every dependency anew, with hashes: of developers, of the image, of its build
	$(BIN)/pip install --quiet uv && $(PIN) --upgrade --extra dev -o requirements-dev.txt pyproject.toml && $(PIN) -c requirements-dev.txt -o requirements.txt pyproject.toml && echo hatchling | $(PIN) -c requirements-dev.txt -o requirements-build.txt -

.venv/ready: requirements-dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch .venv/ready
