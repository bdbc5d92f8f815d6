.PHONY: test lint ci nightly bench fuzz mutants examples pages cards site pictures accuracy

test:
	python -m pytest -n auto

lint:
	ruff check . && ruff format --check . && mypy && python -m benchmarks.rooms && python -m benchmarks.words

ci:
	.ci/run

# What .ci/run leaves out: more of what its tests have some of. CONTRIBUTING.md lists them.
nightly:
	python -m pytest -n auto -m nightly

# Some hours: documents and command lines at random, the two readers for 10 minutes each, kills,
# properties of random plans, the same bytes in all surroundings. docs/hostile_input.md says more.
fuzz:
	python -m fuzz.judged --plans 100000
	python -m fuzz.campaign --documents 100000
	python -m fuzz.campaign --kind study --documents 10000
	python -m fuzz.campaign --kind line --documents 1000
	python -m fuzz.schema_walk
	python -m fuzz.readers yaml
	python -m fuzz.readers units
	python -m fuzz.served --settings 1000
	python -m fuzz.tricks --tricks 2000
	python -m fuzz.kills
	python -m fuzz.kills --trees 100
	python -m pytest tests/test_whole_space.py tests/test_edges.py --hypothesis-profile=long
	python -m benchmarks.same_bytes --wheel

# Some hours: whether the tests notice a changed operator or number (CONTRIBUTING.md).
mutants:
	python -m benchmarks.mutation --seed 1

bench:
	python -m benchmarks.speed start --runs 11

# After a change that moves numbers or wording: the committed reports, and what is made of docs/.
examples: pages
	for plan in presets/*.yaml presets/fine_tuning/*.yaml presets/reinforcement/*.yaml; do report=$${plan#presets/}; \
		python plan.py $$plan -o examples/$${report%.yaml}.md >/dev/null || exit; done
	python plan.py presets/llama70b_h100x1024.yaml -o examples/llama70b_h100x1024.html \
		-o examples/llama70b_h100x1024.json >/dev/null

# Formulas by chapter, a page for each command, and what a terminal shows in the README.
pages:
	python -m benchmarks.pages

# What twenty cards can train, for docs/cards.md. Some minutes.
CARDS = rtx-3060 rtx-3080 rtx-3090 rtx-4060-ti-16gb rtx-4070-ti-super rtx-4080 rtx-4090 \
	rtx-5070-ti rtx-5080 rtx-5090 rtx-a6000 rtx-6000-ada rtx-pro-6000 t4 l4 a10g l40s \
	a100-sxm-80gb h100-sxm-80gb gb10
cards:
	sed -n '1,/^<!-- cards -->/p' docs/cards.md >docs/cards.md.new
	for card in $(CARDS); do printf '\n## %s\n\n' $$card; \
		python plan.py fit-table --device $$card --format md || exit; done >>docs/cards.md.new
	mv docs/cards.md.new docs/cards.md

# The documentation in build/site, and at page/ below it the planner in the browser.
site:
	mkdocs build
	python plan.py site -o build/site/page

# The pictures of the gallery and the README, where a Chromium is.
pictures:
	python -m benchmarks.pictures

# After a change that moves predictions: the intervals, and the tables of docs/accuracy.md and
# docs/accuracy/runs.md.
DATA = tests/data
PAGE = --markdown docs/accuracy.md
BY_RUN = --markdown docs/accuracy/runs.md
MEMORY = --truth $(DATA)/memory_truth --runs $(DATA)/runs.jsonl --stacks $(DATA)/publications.yaml \
	$(foreach name,adapters fms reports torchtitan,--runs $(DATA)/memory_$(name).jsonl) \
	--runs $(DATA)/runs_2026-12-01-memory.jsonl
accuracy:
	python -m benchmarks.time_bands --runs $(DATA)/runs.jsonl $(PAGE) --bands presets/efficiency/bands.yaml \
		$(foreach name,held_out largest_runs serving_runs untried_2026-11 runs_2026-11 rl_steps memory_adapters,--held-out $(DATA)/$(name).jsonl)
	python -m benchmarks.practice --unstated presets/efficiency/practice.yaml
	python -m benchmarks.memory_accuracy $(MEMORY) --bands presets/efficiency/memory.yaml
	python -m benchmarks.memory_accuracy $(MEMORY) $(PAGE)
	python -m benchmarks.time_accuracy --runs $(DATA)/runs.jsonl $(PAGE)
	python -m benchmarks.time_accuracy --runs $(DATA)/held_out.jsonl $(PAGE) --name "held-out sources"
	python -m benchmarks.time_accuracy --runs $(DATA)/untried_2026-11.jsonl $(PAGE) --name "untried sources"
	python -m benchmarks.time_totals --runs $(DATA)/largest_runs.jsonl $(BY_RUN)
	python -m benchmarks.time_totals --runs $(DATA)/held_out.jsonl $(BY_RUN) --name "held-out runs"
	python -m benchmarks.serving_accuracy $(BY_RUN)
	python -m benchmarks.calibrate --runs $(DATA)/runs.jsonl --rounds 0 $(PAGE)
	python -m benchmarks.laboratories --runs $(DATA)/runs.jsonl --runs $(DATA)/held_out.jsonl $(PAGE)
	python -m benchmarks.order $(PAGE) --order presets/efficiency/order.yaml \
		$(foreach name,runs held_out runs_2026-11 untried_2026-11,--runs $(DATA)/$(name).jsonl)
	python -m benchmarks.layouts --markdown docs/layouts.md
