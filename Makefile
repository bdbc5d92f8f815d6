.PHONY: test lint ci bench fuzz examples

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

# After a change that moves numbers or wording: the committed reports and the page of formulas.
examples:
	for plan in presets/*.yaml; do \
		python plan.py $$plan -o examples/$$(basename $$plan .yaml).md >/dev/null || exit; done
	python plan.py presets/llama70b_h100x1024.yaml -o examples/llama70b_h100x1024.html \
		-o examples/llama70b_h100x1024.json >/dev/null
	python -m planner.render.book > docs/formulas.md
