"""Memory by stage and moment, and kernels under the roof, as they are drawn."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.report import chart, pictures, roofline, timeline
from planner.report.elements import Label
from planner.report.report import _make_environment
from planner.results import intervals
from planner.results.result import Result
from tests.conftest import read_data

SHARED = {"cluster": {"accelerator": "h800-sxm-80gb", "devices": 2048}}
#: A dense pipeline, a single stage, experts on a long pipeline of which all stages differ, serving.
PLANS = {
    "dense": "presets/llama70b_h100x1024.yaml",
    "single": "presets/gpt2small_hgx-h100.yaml",
    "long": SHARED
    | read_data("plans")["long_pipeline"],
    "serving": read_data("plans")["served_pipeline"],
}  # fmt: skip


@pytest.fixture(scope="module", params=PLANS)
def result(request: pytest.FixtureRequest) -> Result:
    return planner.load(PLANS[request.param]).evaluate()


def figures(name: str, *given: object) -> str:
    made = getattr(_make_environment(True).get_template("figures.html.jinja").module, name)
    return str(made(*given))


# -- memory --------------------------------------------------------------------------------------


def numbers(title: str) -> list[int]:
    """The stages that a panel's title names."""
    found: list[int] = []
    for words in re.split(", | and ", title.partition(" ")[2]):
        first, _, last = words.partition(" to ")
        found += range(int(first), int(last or first) + 1)
    return found


def test_each_stage_stands_in_one_panel(result: Result) -> None:
    figure = pictures.plot_memory(result)
    assert figure is not None and 1 <= len(figure.panels) <= 8
    count = result.plan.get("parallelism.pipeline")
    titles = [panel.title for panel in figure.panels]
    if count == 1:
        assert titles == ["Each device"]
    else:
        assert sorted(n for title in titles for n in numbers(title)) == [*range(1, count + 1)]
    assert sum("fullest" in panel.note for panel in figure.panels) == (len(figure.panels) > 1)


def test_parts_add_up_to_what_is_live(result: Result) -> None:
    """No summand is lost on the way to a column: heights are bytes on one scale."""
    figure = pictures.plot_memory(result)
    assert figure is not None
    for stage in result.list_entries("stage"):
        for phase in result.list_entries("phase"):
            live = result[f"memory.live[{stage.path},{phase.path}]"]
            assert sum(pictures._read_live_bytes(result, stage, phase).values()) == live.number
    pace: list[float] = []
    for panel in figure.panels:
        heights = [0.0] * len(figure.moments)
        for path in panel.shapes.values():
            for x, high in re.findall(r"M([\d.]+) [\d.]+v-([\d.]+)", path):
                axes = figure.axes
                wide = min(pictures.WIDEST, (axes.right - axes.left) / len(heights))
                heights[int((float(x) - axes.left) / wide)] += float(high)
        both = zip(heights, panel.sizes, strict=True)
        pace += [high / float(text) for high, text in both if high > 20]
        assert sum(top.look == "b" for top in panel.tops) == 1
    assert max(pace) <= 1.03 * min(pace)
    peak = max(result.list_entries("stage"), key=lambda e: result[f"memory.peak[{e.path}]"].number)
    most = max(figure.panels, key=lambda panel: "fullest" in panel.note)
    said = result[f"memory.peak[{peak.path}]"].number / 2**30
    top = next(top for top in most.tops if top.look == "b")
    assert float(top.text) == pytest.approx(float(said), rel=0.01)


def test_columns_stand_to_scale() -> None:
    """By hand: half of the most is half as high; the capacity is a line where it is near."""
    stages = [[[("weights", 40), ("activations", 40)]], [[("weights", 40)]]]
    figure = pictures.build_panels(stages, [["80"], ["40"]], 100.0, 1.0)
    whole = figure.axes.bottom - figure.axes.top
    assert figure.limit == figure.axes.top
    assert figure.panels[0].shapes["weights"] == figure.panels[1].shapes["weights"]
    assert re.findall(r"v-([\d.]+)", figure.panels[0].shapes["activations"]) == [f"{0.4 * whole:g}"]
    assert [label.text for label in figure.panels[0].labels] == ["weights", "activations"]
    assert not figure.panels[1].labels and not figure.thin
    assert pictures.build_panels(stages, [["80"], ["40"]], 1000.0, 1.0).limit is None


def test_sizes_of_four_digits_have_a_scale() -> None:
    """1,011 GiB on one device, below a TiB, are drawn."""
    model = {"extends": "llama3-70b", "layers": 68}
    training = {"tokens": "1B", "global_batch": 8}
    plan = {"model": model, "training": training, "cluster": "hgx-h100", "parallelism": {"zero": 0}}
    figure = pictures.plot_memory(planner.load(plan).evaluate())
    assert figure is not None and "1,0" in repr(figure)


def test_few_panels_for_many_stages() -> None:
    """Alike stages share one, wherever they stand; the ends stay by themselves."""

    def held(stage: int, size: int) -> pictures.Held:
        return pictures.Held((stage,), ({"weights": pictures.Fraction(size)},))

    same = pictures._merge_alike([held(1, 9), held(2, 5), held(3, 7), held(4, 5)])
    assert [one.stages for one in same] == [(1,), (2, 4), (3,)]
    sizes = [900, 10, 20, 21, 40, 50, 60, 70, 80, 95, 300]
    many = pictures._merge_alike([held(i, size) for i, size in enumerate(sizes, 1)])
    assert len(many) == pictures.MOST
    assert many[0].stages == (1,) and many[-1].stages == (11,)
    merged = next(one for one in many if 3 in one.stages)
    assert 4 in merged.stages and max(merged.sizes) >= 21  # the fuller one stands for both
    assert pictures.format_stages([1]) == "Stage 1"
    assert pictures.format_stages([2, 3]) == "Stages 2 and 3"
    assert pictures.format_stages([2, 4, 6, 7, 8]) == "Stages 2, 4 and 6 to 8"


def test_memory_is_read_aloud_and_light(result: Result) -> None:
    figure = pictures.plot_memory(result)
    text = figures("memory", figure)
    assert figure is not None and len(text) < 20_000
    drawn = re.findall(r'<svg [^>]*role="img" aria-label="([^"]+)"', text)
    assert drawn == [panel.text for panel in figure.panels]
    assert all(panel.title in said for panel, said in zip(figure.panels, drawn, strict=True))
    assert figure.capacity in figure.said


def test_what_has_no_shape_has_no_panels() -> None:
    assert pictures.plot_memory(planner.load("presets/cs336_70b_h100x1024.yaml").evaluate()) is None


# -- the roof ------------------------------------------------------------------------------------

KERNELS = st.lists(
    st.tuples(st.floats(1, 4000), st.floats(0.02, 1), st.integers(3, 28)), min_size=1, max_size=12
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(KERNELS)
def test_labels_do_not_overlap(kernels: list[tuple[float, float, int]]) -> None:
    peak, bandwidth = 989e12, 3.35e12
    dots = [Label(at, share * min(peak, at * bandwidth), "k" * size) for at, share, size in kernels]
    figure = roofline.place_kernels(peak, bandwidth, dots)
    boxes = [roofline.get_label_box(label) for _, label, _ in figure.dots]
    for one, other in combinations(boxes, 2):
        assert not chart.has_overlap(one, other)
    for left, top, right, bottom in boxes:
        assert (
            left >= 0 and right <= figure.axes.width and top >= 0 and bottom <= figure.axes.height
        )


def test_kernels_stand_at_their_rates() -> None:
    """A kernel at the roof touches it: below the ridge the bandwidth, above it the peak."""
    peak, bandwidth = 1000e12, 2e12  # the ridge is at 500
    dots = [
        Label(at, min(peak, at * bandwidth) / part, str(at))
        for at, part in ((50, 1), (500, 1), (2000, 1), (2000, 4))
    ]
    figure = roofline.place_kernels(peak, bandwidth, dots)
    low, ridge, high, quarter = (dot for dot, _, _ in figure.dots)
    roofs = [roof for _, _, roof in figure.dots]
    assert [low.y, ridge.y, ridge.y, high.y] == roofs and ridge.y == high.y
    decade_x, decade_y = ridge.x - low.x, low.y - ridge.y
    assert high.x - ridge.x == pytest.approx(decade_x * math.log10(4), abs=0.3)
    assert quarter.y - high.y == pytest.approx(decade_y * math.log10(4), abs=0.3)


def test_the_roof_is_left_out_where_utilisation_is_assumed() -> None:
    given = "presets/llama70b_h100x1024.yaml"
    part = pictures.kernels(planner.load(given).evaluate())
    assert part is not None and part.dots[-1][0].look == "own"
    assert (
        pictures.kernels(
            planner.load(given, set={"time.mfu": 0.4, "time.use": "assumed"}).evaluate()
        )
        is None
    )
    dot, label, roof = part.dots[0]
    hostile = replace(part, layer="<b>", dots=[(dot, replace(label, text="<b>"), roof)])
    text = figures("roof", hostile)
    assert "<b>" not in text and "&lt;b&gt;" in text


# -- the timeline --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_timeline_is_light() -> None:
    made = timeline.build_step_view(planner.load("presets/gpt3_a100x1024.yaml").evaluate())
    assert made is not None and made._timeline.stages == 8
    text = figures("timeline", made)
    assert len(text) < 25_000 and 'role="img"' in text
    looks = [look for look, _ in made.legend]
    assert len(looks) == len(set(looks))


# -- words ---------------------------------------------------------------------------------------


def test_no_two_parts_of_a_sum_are_called_alike(result: Result) -> None:
    for quantity in result.quantities.values():
        labels = [term.label for term in quantity.terms]
        assert len(labels) == len(set(labels)), quantity.id


def test_where_no_run_was_published_none_is_counted() -> None:
    served = planner.load(PLANS["serving"]).evaluate()
    basis = intervals.find_basis("memory.total", served.evaluation.case.settings)
    assert basis is not None and (basis.rows, basis.sources) == (0, 0)
