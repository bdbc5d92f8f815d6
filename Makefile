.PHONY: test lint ci bench

test:
	python -m pytest

lint:
	ruff check . && ruff format --check . && mypy

ci:
	.ci/run

bench:
	python -m benchmarks.startup
