# Everything a newcomer needs. `make` alone lists the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
SPARK  := .venv-spark
TOOLS  := build/tools
PIP    := -m pip install -qq --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-spark test-full test-federated kills hostile attacks reached check docs site bench figures screenshots dist hashes image test-image test-unit test-install sbom clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(READY) ## create .venv and install Saibot with everything the tests need

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Saibot needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Installing Saibot and its tools into $(VENV) (a few minutes the first time) ..."
	@$(PYTHON) -m venv $(VENV)
	@{ command -v uv >/dev/null && uv pip install -q --python $(BIN)/python -e '.[dev]' -c constraints.txt; } \
	  || $(BIN)/python $(PIP) --no-compile -e '.[dev]' -c constraints.txt
	@touch $@

demo: $(READY) ## the whole story on real households: publish, search, train; about a minute
	@$(BIN)/saibot demo

test: $(READY) ## run the tests (creates .venv first if need be)
	@$(BIN)/python -m pytest -q -n auto -m 'not spark'
	@$(MAKE) --no-print-directory test-spark

test-full: export SAIBOT_FULL = 1
test-full: $(READY) ## run every test, slow ones too, statistics in their long form
	@$(BIN)/python -m pytest -q -n auto -m 'not spark'
	@$(MAKE) --no-print-directory test-spark

test-federated: $(READY) ## train together in Flower's simulation, in .venv-federated of its own (530 MB), and compare
	@test -x .venv-federated/bin/flwr || $(PYTHON) -m venv .venv-federated
	@.venv-federated/bin/python $(PIP) -r examples/federated/requirements.txt
	@rm -rf build/federated
	@$(BIN)/python -m research.real.federated --folder build/federated --prepare
	@SAIBOT_COMMAND="$(BIN)/saibot" .venv-federated/bin/python examples/federated/flower_app.py build/federated
	@$(BIN)/python -m research.real.federated --folder build/federated --judge build/federated/plan-state-4.json

# Spark is 430 MB and needs Java: it lies beside the rest, and only where there is Java, or root may install it.
test-spark: $(READY) ## run the tests that need Spark; skipped where there is no Java
	@if ! command -v java >/dev/null && [ -z "$$JAVA_HOME" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing Java for Spark ..."; \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless; } >/dev/null 2>&1 || true; \
	fi
	@if command -v java >/dev/null || [ -n "$$JAVA_HOME" ]; then $(MAKE) --no-print-directory $(SPARK)/.ready; fi
	@PYTHONPATH="$(abspath $(SPARK)):$$PYTHONPATH" $(BIN)/python -m pytest -q -n 0 -m spark tests/contract

$(SPARK)/.ready: constraints.txt
	@echo "Installing Spark into $(SPARK) ..."
	@rm -rf $(SPARK)
	@$(BIN)/python $(PIP) --target $(SPARK) pyspark -c constraints.txt
	@touch $@

kills: $(READY) ## kill a platform 500 times on SQLite and on Postgres, with full disks and other faults, taken up where it was stopped (build/kills); then migrations
	@$(BIN)/python -m tests.campaigns.kills --kills 500 --state build/kills/sqlite
	@$(BIN)/python -m tests.campaigns.kills --kills 500 --state build/kills/postgres --postgres
	@$(BIN)/python -m tests.campaigns.migrations --kills 100
	@$(BIN)/python -m tests.campaigns.migrations --kills 100 --postgres

hostile: $(READY) ## publish and search 100,000 sketches with hostile numbers, taken up where it was stopped (build/hostile)
	@$(BIN)/python -m tests.campaigns.hostile_numbers --count 100000 --state build/hostile

attacks: $(READY) ## attack a platform in every way there is, on SQLite and on Postgres: memory, what others wait, what is lost (half an hour)
	@$(BIN)/python -m tests.campaigns.attacks
	@$(BIN)/python -m tests.campaigns.attacks --postgres

reached: export SAIBOT_FULL = 1
reached: $(READY) ## find modules that nothing but their own tests reaches
	@$(BIN)/python -m pytest -q -n 0 tests/e2e/test_everything_is_reached.py

check: $(READY) ## lint, formatting, types, and who may import whom
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

docs: $(READY) ## write the reference pages: commands, HTTP, settings, vocabularies
	@$(BIN)/python -m sitebuild.reference

site: $(READY) ## build the guide into build/site, check its links, and pack it for the platform's /help; needs no network
	@$(BIN)/python -m sitebuild

bench: $(READY) ## speed side by side with a plain GROUP BY, as ratios
	@$(BIN)/saibot bench privatize

figures: $(READY) ## run the paper's figures and ours again into docs/figures (an hour or more with real tables)
	@$(BIN)/saibot reproduce all --out docs/figures

screenshots: $(READY) ## look at every page: light and dark, wide and narrow, into docs/screenshots
	@$(BIN)/python -m pytest -q -n 0 tests/browser/screenshots.py

dist: $(TOOLS)/.ready site ## build the wheel, with the guide in it, and the source archive into dist, and check both
	@rm -rf dist
	@$(TOOLS)/bin/python -m build --no-isolation >build/dist.log 2>&1 || { cat build/dist.log; exit 1; }
	@$(TOOLS)/bin/twine check --strict dist/*
	@$(TOOLS)/bin/python deploy/check_wheel.py dist/*.whl

$(TOOLS)/.ready: constraints.txt
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python $(PIP) build hatch-fancy-pypi-readme hatchling 'readme-renderer[md]' twine -c constraints.txt
	@touch $@

hashes: $(READY) dist ## write which files the container image may be made of: deploy/hashes.txt, from constraints.txt
	@$(BIN)/python deploy/hashes.py

image: dist ## build the container image from the wheel, with mmdebstrap and buildah (apt-get install both): build/image
	@PYTHON=$(TOOLS)/bin/python deploy/image.sh

test-image: $(READY) ## run the container image on its own, and with Postgres and an S3-compatible store; after make image
	@$(BIN)/python -m tests.campaigns.image

test-unit: $(READY) dist ## boot a Debian with the systemd unit and use the platform there (root, mmdebstrap, systemd-container)
	@$(BIN)/python -m tests.campaigns.unit

test-install: $(READY) dist ## install the wheel in a fresh Debian without compilers, measure every extra, run the demo (root, mmdebstrap)
	@$(BIN)/python -m tests.campaigns.fresh_debian

sbom: $(READY) ## write what Saibot runs on, with versions, licences and who needs whom, as CycloneDX into build/sbom.json
	@$(BIN)/python deploy/sbom.py build/sbom.json

clean: ## remove .venv, caches and build outputs
	@rm -rf $(VENV) $(SPARK) .venv-federated build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src research tests -name __pycache__ -type d -prune -exec rm -rf {} +
