# The same few commands for a person and for CI. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Another package index for torch, for example https://download.pytorch.org/whl/cpu (see README, "Which torch").
TORCH_INDEX ?=
ARGS ?=
# Some hundred processes of ours start in a test run: each would compile the same modules anew.
export PYTHONDONTWRITEBYTECODE :=
# Test files that run at once; each of these processes has a Postgres and a Valkey of its own.
WORKERS ?= 2
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.PHONY: bench-sample bench-overlap bench-env bench-train bench-sync bench-dashboard bench-peers help demo demo-llm experiment test test-vllm check openapi faults screenshots test-deploy docs secrets check-security clean
.DEFAULT_GOAL := help

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@echo "installing (about 1.6 GB with a CPU build of torch; a minute or two)"
	$(PIP) --editable '.[dev]' --constraint constraints.txt
	@touch $@

demo: $(VENV)/installed  ## train the pair of demo models end to end (ARGS=--smoke for a quick run, ARGS="key=value ..." for overrides)
	$(BIN)/tandem demo $(ARGS)

demo-llm: $(VENV)/installed  ## the same with a real language model in both roles, SmolLM2-135M; up to 20 minutes (ARGS="llm.live_steps=1")
	$(BIN)/tandem demo-llm $(ARGS)

experiment: $(VENV)/installed  ## compare the paper's arms over seeds, resumable, about 4 minutes a job (ARGS=--smoke, ARGS=--plan)
	$(BIN)/tandem experiment $(ARGS)

test: $(VENV)/installed  ## run every test, with a real Postgres and Valkey (ARGS="-k name" to choose)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-vllm: $(VENV)/installed  ## the sampler on a real vLLM, on a CPU; makes its environment in runs/peers/vllm (3.5 GB)
	$(BIN)/python -m pytest --vllm tests/vllm $(ARGS)

check: $(VENV)/installed  ## lint, types, import contracts, the committed OpenAPI documents
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check planner_server executor_server sync_service shared
	$(BIN)/lint-imports --no-cache
	$(BIN)/python docs/openapi/write.py --check

openapi: $(VENV)/installed  ## write docs/openapi/ anew, from the code
	$(BIN)/python docs/openapi/write.py

screenshots: $(VENV)/installed  ## write the pictures of the dashboard in docs/images/ anew; needs Chromium (.ci/packages)
	$(BIN)/python -m tests.integration.dashboard.screenshots

faults: $(VENV)/installed  ## kill every part under load, and judge what is left (ARGS=--quick, ARGS="--seed 7")
	$(BIN)/python -m tests.faults.chaos $(ARGS)

test-deploy: $(VENV)/installed  ## hosts as network namespaces: cut off, moved, upgraded in a run; needs root (ARGS=--quick)
	$(BIN)/python -m tests.deploy.drill $(ARGS)

docs:  ## the pages as a site in build/docs; makes its environment in .venv-docs
	test -d .venv-docs || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check '.[docs]' --constraint constraints.txt
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --config-file docs/site/mkdocs.yml

bench-sync: $(VENV)/installed  ## how much the sync service bears; last, a line of JSON (ARGS=--quick)
	$(BIN)/python -m tests.benchmarks.sync $(ARGS)

bench-dashboard: $(VENV)/installed  ## what 100 viewers cost, and pages on a long run; last, a line of JSON (ARGS=--quick)
	$(BIN)/python -m tests.benchmarks.dashboard $(ARGS)

bench-peers: $(VENV)/installed  ## two other systems at the same work, in turn; makes their environments (ARGS=--quick)
	$(BIN)/python -m tests.benchmarks.peers $(ARGS)

bench-overlap: $(VENV)/installed  ## how much of sampling and training hides behind the other, by staleness (ARGS=--quick)
	$(BIN)/python -m tests.benchmarks.overlap $(ARGS)

bench-sample: $(VENV)/installed  ## three-turn conversations by our sampler, generate, static batches, vLLM (ARGS=--quick)
	$(BIN)/python -m tests.benchmarks.sample $(ARGS)

bench-env: $(VENV)/installed  ## make what benchmarks need: environments of other projects, SmolLM2
	$(BIN)/python -m tests.benchmarks.environments
	$(BIN)/python -m tests.benchmarks.train.models

bench-train: $(VENV)/installed  ## what a training step costs, beside copies, a plain step and TRL (ARGS=--quick)
	$(BIN)/python -m tests.benchmarks.train $(ARGS)

secrets:  ## passwords, keys and certificates of a deployment, in deploy/secrets; none is made twice (docs/deployment.md)
	TANDEM_CLI=$${TANDEM_CLI:-$$(command -v $(BIN)/tandem || echo tandem)} deploy/secrets.sh deploy/secrets

check-security: $(VENV)/installed  ## known vulnerabilities of what is pinned, and build/sbom.json; exit code 3: no network
	$(BIN)/python deploy/check_security.py

clean:  ## remove the virtual environment and all runs
	rm -rf $(VENV) runs
