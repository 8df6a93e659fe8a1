# The task runner. `make` lists the tasks.
.PHONY: help test nightly lint types corpus conformance generated suite site matrix mutants fuzz-smoke pythons audit check

help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 16

test: ## run the project's own tests
	pytest -q -n auto --dist worksteal

nightly: ## all tests, including the slow ones (half an hour)
	HYPOTHESIS_PROFILE=night pytest -q -n auto --dist worksteal -m "nightly or not nightly"

lint: ## formatting, lint, and imports between packages
	ruff format --check .
	ruff check .
	lint-imports

types: ## static types
	mypy

corpus: ## rebuild the corpus
	stc corpus build

conformance: generated suite ## both of the following

generated: ## checks that generated files and pages are up to date
	stc corpus build --check
	python -m tools.covering --check
	stc corpus stats --check
	stc corpus bugs --check
	stc trophies --check
	stc publish --check
	stc rules build --check
	python -m benchmarks counts --check
	python -m benchmarks performance --check
	python -m benchmarks formats --check
	python -m benchmarks promises --check

# One run of each with pytest, as in the README; `stc run` does the same work in a third of the time.
suite: ## runs of the reference without and with each profile, and of the official library with its baselines
	pytest conformance -q
	pytest conformance -q --impl=safetensors
	stc run -q --profile text
	stc run -q --profile official
	stc run -q --profile hardened
	stc run -q --impl safetensors:numpy --impl safetensors:safe-open --impl safetensors:torch

site: ## static pages of all published results, into site/
	stc site build

matrix: ## recompute the matrix of broken implementations and the cases that fail them (minutes)
	python -m proof.broken --check

mutants: ## recompute the mutants of the explaining reader that the corpus kills (minutes)
	python -m proof.mutation --check

fuzz-smoke: ## a bounded, reproducible fuzz run
	stc fuzz --impl reference --impl safetensors --max-execs 20000 --seed 1
	stc fuzz --steps prove,check --max-execs 2000 --seed 1
	stc fuzz --impl reference --steps slice,write,index --max-execs 900 --seed 1
	python -m proof.documents --max-execs 2000 --seed 1
	python -m benchmarks fuzzer --set easy --seeds 1 --gate

pythons: ## a part of the tests on every other supported Python that this machine has
	.ci/pythons

audit: ## bandit over the code, pip-audit over installed packages (a minute; needs the extra audit and the network)
	bandit -q -c pyproject.toml -r reference corpus/safetensors_cases corpus/safetensors_corpus reports conformance fuzz benchmarks tools proof .github hatch_build.py
	pip-audit --skip-editable

check: lint types test conformance fuzz-smoke ## all checks that CI runs
