.PHONY: test lint ci bench fuzz

test:
	python -m pytest

lint:
	ruff check . && ruff format --check . && mypy

ci:
	.ci/run

# An hour or so: 100,000 documents, then the two readers for 10 minutes each.
fuzz:
	python -m fuzz.campaign --documents 100000
	python -m fuzz.readers yaml
	python -m fuzz.readers units
	python -m benchmarks.same_bytes --wheel

bench:
	python -m benchmarks.startup
