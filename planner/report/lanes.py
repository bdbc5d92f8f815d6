"""The layout of a step over time: lanes of work, communication and idle time over one axis. A
rectangle is a stroke of a path, as wide as its lane is high, so that all of one look are one path,
and strokes with a constant period a dashed line."""

from __future__ import annotations

import math
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from planner.base.numbers import SCALES
from planner.base.sandbox import Record
from planner.report.chart import list_steps, tick
from planner.report.elements import Label
from planner.report.layout import LOOKS
from planner.results.timeline import Span, Timeline

#: The box: how wide it is, what the names of lanes take of that, how high a lane and its bar are,
#: and traffic beside work in it.
WIDTH, LEFT, TOP, LANE, BAR, STRIP = 1136, 58, 24, 28, 22, 4
WORDS, RULES = 12, TOP - 6  # where moments are written, and where their rules begin
UNITS, SLIT = 2, 2  # path units per unit of the box; a gap that is not visible
#: Passes that are narrower than this in the mean are left out in the middle, until the others are
#: as wide as that; so much of the box is the mark for it.
NARROW, LEGIBLE, BREAK = 3.5, 6, 14
APART = 9  # passes that are as wide have a gap between them
STEADY = 7  # strokes at one pace that are drawn as dashes
DIGIT = 6.5  # the width of one
ORDER = ("forward", "again", "backward", "weights", "update", "exchange", "beside")
Runs = list[list[int]]  # where strokes of a lane start and end, in units of a path


class TimeAxis(NamedTuple):
    """An axis from seconds to positions in units of a path, which may leave out a part in the
    middle.

    Attributes:
        scale: units for a second.
        start, end: seconds, the ends of the part that is left out.
        batches: the micro-batches in that part; 0 if nothing is left out.
    """

    scale: float
    start: float = math.inf
    end: float = math.inf
    batches: int = 0

    def __call__(self, moments: Iterable[float]) -> list[int]:
        """Place moments, in seconds, in units of a path; those in the part left out share its
        end."""
        scale, start, end, batches = self
        if not batches:
            return [round(moment * scale) for moment in moments]
        further = round(start * scale) + BREAK * UNITS
        return [
            round(moment * scale)
            if moment <= start
            else further + (round((moment - end) * scale) if moment > end else 0)
            for moment in moments
        ]

    def place_moments(self, moments: Iterable[float]) -> list[float]:
        """Place moments in the box."""
        return [LEFT + at / UNITS for at in self(moments)]


class Lane(NamedTuple):
    """The strokes of a pipeline stage, or of one stream of a step with a single stage.

    Attributes:
        name: its label.
        runs: start and end of each stroke by look, in units of a path.
        ends: the first and the last pass, each with its start and end.
        works: whether it computes, so that its gaps are idle time.
    """

    name: str
    runs: Mapping[str, Runs]
    ends: list[tuple[Span, int, int]]
    works: bool


class LanesFigure(Record):
    """A figure of some lanes over one axis of time.

    Attributes:
        id: of the figure.
        bottom: the lower end of the lanes, which is the height of the box.
        names: the labels of the lanes.
        idle: the path of idle time below the strokes.
        strokes: look, dashes and path of each set of strokes, in units of a path.
        texts: numbers of micro-batches; ``look`` is that of the work.
        ticks: moments, each tied to a rule; ``look`` is how it is anchored.
        gone, cut: paths of the mark for what is left out and of its edges; empty without one.
        right: the width of the box.
        transform: from units of a path to the box.
    """

    id: str
    bottom: int
    names: list[Label]
    idle: str
    strokes: list[tuple[str, str, str]]
    texts: list[Label]
    ticks: list[Label]
    gone: str
    cut: str
    right: int = WIDTH
    transform: str = f"translate({LEFT})scale({1 / UNITS} 1)"


# -- the axis -------------------------------------------------------------------------------------


def choose_axis(timeline: Timeline, stages: Sequence[Sequence[Span]]) -> TimeAxis:
    """Choose an axis for the step. If passes would be illegible and forward and backward passes
    alternate on all stages in the middle, leave out micro-batches there."""
    room, seconds = WIDTH - LEFT, timeline.seconds
    passes = max(sum(span.work in LOOKS for span in spans) for spans in stages)
    if room >= NARROW * passes:
        return TimeAxis(room * UNITS / seconds)
    back = [[s.start for s in spans if LOOKS.get(s.work) == "backward"] for spans in stages]
    begin = max(min(starts, default=math.inf) for starts in back)
    there = [[s.end for s in spans if s.work == "forward"] for spans in stages]
    finish = min(max(ends, default=0.0) for ends in there)
    turns = [start for start in back[-1] if begin <= start <= finish]
    chunks = 1 + max(span.chunk or 0 for span in stages[-1])
    unit = chunks * timeline.stages if chunks > 1 else 1  # passes until chunks repeat
    wanted = (passes - room / LEGIBLE) * len(back[-1]) / passes
    count = min(math.ceil(wanted / unit), (len(turns) - 1) // unit) * unit
    if count <= 0:
        return TimeAxis(room * UNITS / seconds)
    first = (len(turns) - 1 - count) // 2
    start, end = turns[first], turns[first + count]
    return TimeAxis((room - BREAK) * UNITS / (seconds - end + start), start, end, count // chunks)


def _list_moments(axis: TimeAxis, seconds: float, bottom: int) -> list[Label]:
    """List round moments, each with its rule down to ``bottom``, and the label of what is left
    out."""
    scale = next((step for step in SCALES["s"] if seconds >= step[1]), SCALES["s"][-1])
    unit, size, texts = scale[0], float(scale[1]), list[Label]()
    gone = axis.end - axis.start if axis.batches else 0.0
    step = list_steps((seconds - gone) / size)[1]
    ticks = [i * step for i in range(int(seconds / size / step * (1 + 1e-9)) + 1)]
    places = axis.place_moments([moment * size for moment in ticks])
    said, middle, half = "", -math.inf, 0.0
    if axis.batches:
        said = f"{axis.batches} micro-batches"
        middle = axis.place_moments([axis.start])[0] + BREAK / 2
        half = DIGIT / 2 * len(said) + 24
        texts.append(Label(middle, WORDS, said, "middle"))
    for moment, at in zip(ticks, places, strict=True):
        if abs(at - middle) > half:
            anchor = "start" if at == LEFT else "end" if at > WIDTH - 20 else "middle"
            rule = f"M{at} {RULES}V{bottom}"
            texts.append(Label(at, WORDS, f"{tick(moment)} {unit}", anchor, rule))
    return texts


# -- lanes ----------------------------------------------------------------------------------------


def build_lane(name: str, spans: Sequence[Span], axis: TimeAxis) -> Lane:
    """Return the strokes of a stage, or of one stream of a single stage, by look.

    Args:
        spans: those of one stream in the order of time.
    """
    spans = [span for span in spans if span.start < axis.start or span.end > axis.end]
    work = [span for span in spans if span.work in LOOKS]
    runs: defaultdict[str, Runs] = defaultdict(list)
    starts, ends = axis([span.start for span in work]), axis([span.end for span in work])
    for span, start, end in zip(work, starts, ends, strict=True):
        if end - start >= APART * UNITS:
            end -= SLIT + 1
        look = LOOKS[span.work]
        # All work is drawn as forward passes first, which joins narrow ones; the rest lies above.
        _add_stroke(runs["forward"], start, end)
        if look != "forward":
            _add_stroke(runs[look], start, end)
    traffic = merge_times(spans, (SLIT + 0.5) / axis.scale)
    for look, found in (("beside", traffic if work else []), ("exchange", alone(traffic, work))):
        moments = axis(moment for pair in found for moment in pair)
        for start, end in zip(moments[::2], moments[1::2], strict=True):
            if end - start > SLIT:
                _add_stroke(runs[look], start, end)
    passes = [i for i, span in enumerate(work) if span.micro_batch is not None]
    there = [i for i in passes if work[i].work == "forward"][:1]
    back = [i for i in passes if LOOKS[work[i].work] == "backward"][-1:]
    return Lane(name, runs, [(work[i], starts[i], ends[i]) for i in there + back], bool(work))


def _add_stroke(runs: Runs, start: int, end: int) -> None:
    """Append a stroke, or extend the last one if no gap between them is visible.

    Args:
        runs: the strokes so far, in order of time.
        start, end: its ends, in units of a path.
    """
    if runs and start <= runs[-1][1] + SLIT:
        if end > runs[-1][1]:
            runs[-1][1] = end
    elif end > start:
        runs.append([start, end])


def merge_times(spans: Iterable[Span], least: float) -> list[tuple[float, float]]:
    """Merge the times of communication of at least ``least`` seconds: disjoint pairs of start and
    end."""
    found: list[tuple[float, float]] = []
    traffic = [
        (start, end)
        for _, _, work, batch, _, start, end in spans
        # Transfers between two passes are kept apart.
        if work not in LOOKS and (batch is None or end - start >= least)
    ]
    for start, end in sorted(traffic):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return [pair for pair in found if pair[1] - pair[0] >= least]


def alone(
    traffic: Iterable[tuple[float, float]], work: Sequence[Span]
) -> Iterator[tuple[float, float]]:
    """Yield the times of that communication during which nothing is computed."""
    starts, ends = [span.start for span in work], [span.end for span in work]
    for at, end in traffic:
        number = bisect(ends, at)
        for begin, through in zip(starts[number:], ends[number:], strict=True):
            if begin >= end:
                break
            if begin > at:
                yield at, begin
            at = max(at, through)
        if at < end:
            yield at, end


def draw_lanes(
    timeline: Timeline, axis: TimeAxis, lanes: Sequence[Lane], seen: Sequence[int], name: str
) -> LanesFigure:
    """Draw a figure of some lanes.

    Args:
        timeline: the simulated step; its length is read.
        axis: the axis of time.
        lanes: all lanes of the step.
        seen: the numbers of those to draw, from top to bottom, counted from 0.
        name: the id of the figure.

    Returns:
        The figure.
    """
    middle = {number: TOP + LANE * row + BAR // 2 for row, number in enumerate(seen)}
    strokes: defaultdict[tuple[str, str], str] = defaultdict(str)
    for look in ORDER:
        shift = (BAR - STRIP) // 2 if look == "beside" else 0
        for number, y in middle.items():
            for path, dashes in _draw_strokes(lanes[number].runs.get(look, []), y + shift):
                strokes[look, dashes] += path
    texts = [
        Label(LEFT + (start + end) / 2 / UNITS, y + 4, text, LOOKS[span.work])
        for number, y in middle.items()
        for span, start, end in lanes[number].ends
        for text in [str((span.micro_batch or 0) + 1)]
        if end - start >= UNITS * (1 + DIGIT * len(text))
    ]
    bottom, gone, cut = TOP + LANE * len(seen), "", ""
    if axis.batches:
        gap = axis.place_moments([axis.start])[0]
        gone = f"M{gap} {RULES}h{BREAK}V{bottom}h-{BREAK}z"
        cut = f"M{gap} {RULES}V{bottom}m{BREAK} 0V{RULES}"
    return LanesFigure(
        name,
        bottom,
        names=[Label(0, y + 4, lanes[number].name) for number, y in middle.items()],
        idle="".join(f"M{LEFT} {y}H{WIDTH}" for n, y in middle.items() if lanes[n].works),
        strokes=[(look, dashes, path) for (look, dashes), path in strokes.items()],
        texts=texts,
        ticks=_list_moments(axis, timeline.seconds, bottom),
        gone=gone,
        cut=cut,
    )


def _draw_strokes(runs: Runs, y: int) -> Iterator[tuple[str, str]]:
    """Yield the strokes at a height as paths with dashes: strokes with a constant period as one
    dashed line, the others together as one path."""
    path, at, first = f"M0 {y}", 0, 0
    while first < len(runs):
        start, end = runs[first]
        number, period, width = _count_steady(runs, first)
        if number >= STEADY:
            length = runs[first + number - 1][1] - start
            yield f"M{start} {y}h{length}", f"{width:g} {round(period - width, 6):g}"
            first += number
            continue
        path += f"{f'm{start - at} 0' if start > at else ''}h{end - start}"
        at, first = end, first + 1
    if at:
        yield path, ""


def _count_steady(runs: Runs, first: int) -> tuple[int, float, float]:
    """Count the strokes from ``first`` on with equal length and period, to a unit of a path; return
    period and length too, in the fewest digits."""
    begin, end = runs[first]
    period, width, number = (0.0, math.inf), (end - begin - 1.0, end - begin + 1.0), 0
    for number, (start, stop) in enumerate(islice(runs, first + 1, None), 1):
        low = max(period[0], (start - begin - 1) / number)
        high = min(period[1], (start - begin + 1) / number)
        short, long = max(width[0], stop - start - 1), min(width[1], stop - start + 1)
        if low > high or short > long:
            number -= 1
            break
        period, width = (low, high), (short, long)
    return 1 + number, _pick_short(*period), _pick_short(*width)


def _pick_short(low: float, high: float) -> float:
    """Return a number inside a range with the fewest decimals."""
    found = (math.ceil(low * 10**digits) / 10**digits for digits in range(6))
    return next((number for number in found if number <= high), low)
