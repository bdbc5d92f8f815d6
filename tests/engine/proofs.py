"""Which quantities never leave their range, whatever the numbers of a plan, and why.

Most of it intervals alone say (``intervals.py``). Where a number stands in a formula twice, the
quantity is written as a sum of products of nodes, in which what stands twice is cancelled, and
roundings and extremes are bounded by what they are made of; it is 0 or more where each product
that is taken away is at most one that is added. Numbers range over sixty powers of ten, so ranges
are not divided: a thousandth of such a range is as hopeless as the whole.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property

from planner.book.quantity import BOOK
from planner.engine.graph import LEAVES, Graph, Number
from planner.engine.lower import Key, Lowering
from tests.engine import intervals
from tests.engine.intervals import INFINITE, Interval

#: A product of powers of nodes, and a sum of such products with the factor of each.
Product = tuple[tuple[int, int], ...]
Form = dict[Product, Fraction | int]
#: Steps of one proof, and of one inside it that a node is at most another.
STEPS, SHORT = 60, 8
#: Products of one sum, and choices one after the other.
PRODUCTS, DEPTH = 200, 24


def unproved(lowered: Lowering, ranges: Mapping[int, Interval]) -> tuple[int, list[Key]]:
    """How many values of quantities have a range that they may not leave, and those of which it is
    not proved that they never do."""
    values, count, found = intervals.run(lowered.graph, ranges), 0, []
    proof = Proof(lowered.graph, values)
    for key, place in lowered.nodes.items():
        low, high = BOOK.quantities[key[0]].within
        operation, arguments = lowered.graph.nodes[place]
        value = values[arguments[0]] if operation == "quantity" else None
        if value is not None and (low, high) != (None, None):
            count += 1
            inside = (low is None or value[0] >= low) and (high is None or value[1] <= high)
            if not inside and not proof.within(arguments[0], low, high):
                found.append(key)
    return count, found


class Proof:
    """Whether nodes of a graph are 0 or more, whatever the inputs in their ranges.

    Args:
        values: the interval of each node, as ``run`` found it.
    """

    def __init__(self, graph: Graph, values: Sequence[Interval | None]) -> None:
        self.nodes = [*graph.nodes, ("name", ("slack",))]
        self.graph, self.values = graph, [*values, (0, 1)]
        #: Stands for the least by which a number rounded up is below the next one.
        self.slack = len(values)
        self.left = 0
        self._known: dict[tuple[int, int], bool] = {}
        self._aside = False

    def within(self, place: int, low: int | None, high: int | None) -> bool:
        """Whether a node is proved to lie in a range."""
        self.left = STEPS
        operation, arguments = self.nodes[place]
        if operation == "ceil" and low == 0:  # where it is rounded up from more than -1
            above = self.holds({((arguments[0], 1),): 1, (): 1, ((self.slack, 1),): -1})
        else:
            above = low is None or self.holds({((place, 1),): 1, (): -low})
        return above and (high is None or self.holds({((place, 1),): -1, (): high}))

    def holds(self, form: Form, depth: int = DEPTH) -> bool:
        """Whether a sum of products is 0 or more: nodes are written as what they are made of, until
        each product that is taken away is one that is added too."""
        while True:
            form = {product: factor for product, factor in form.items() if factor}
            self.left -= 1
            if self.covered(form):
                return True
            if self.left < 0 or len(form) > PRODUCTS or depth <= 0:
                return False
            for place in self.order(form):
                written = self.written(form, place)
                if written is not None:
                    form = written
                    break
                branches = self.branches(form, place)
                if branches is not None:
                    every, options = branches
                    return (all if every else any)(self.holds(o, depth - 1) for o in options)
            else:
                return False

    def order(self, form: Form) -> Iterator[int]:
        """The nodes to take apart: those that may be below 0, then products; then of those that are
        taken away the latest, after what is made of it."""
        every = {node for product in form for node, _ in product if node != self.slack}
        yield from sorted((n for n in every if not self._counted([(n, 1)])), reverse=True)
        yield from (node for node in every if self.nodes[node][0] in ("mul", "div"))
        for place in sorted(self._away(form) - {self.slack}, reverse=True):
            yield from sorted((n for n in every if self._behind[n] >> place & 1), reverse=True)
            yield place

    def _away(self, form: Form) -> set[int]:
        return {node for product, factor in form.items() if factor < 0 for node, _ in product}

    @cached_property
    def _behind(self) -> list[int]:
        """The nodes that each is made of, as bits."""
        found: list[int] = []
        for operation, arguments in self.nodes:
            bits = 0
            for argument in () if operation in LEAVES else arguments:
                bits |= found[argument] | 1 << argument
            found.append(bits)
        return found

    def written(self, form: Form, place: int) -> Form | None:
        """The sum with a node as what it is made of; None where it cannot be taken apart."""
        (operation, arguments), value = self.nodes[place], self.values[place]
        if value is not None and value[0] == value[1] != 0:
            exact = Fraction(value[0])
            return _put(form, place, lambda power: {(): exact**power})
        if operation == "add" and any(e > 0 for p in form for node, e in p if node == place):
            terms = Counter(arguments)

            def once(power: int) -> Form:
                """Of a sum to some power, one factor."""
                if power < 0:
                    return {((place, power),): 1}
                rest = (place, power - 1)
                return {_joined([(term, 1), rest]): count for term, count in terms.items()}

            return _put(form, place, once)
        powers = {"quantity": [1], "div": [1, -1]}.get(operation, [])
        if operation == "mul":
            powers = [1] * len(arguments)
        elif operation == "pow" and isinstance(self.graph.get_number(arguments[1]), int):
            powers = [self.graph.nodes[arguments[1]][1][0]]
        if not powers:
            return None
        factors = list(zip(arguments, powers, strict=False))
        return _put(form, place, lambda power: {_joined([(n, e * power) for n, e in factors]): 1})

    def branches(self, form: Form, place: int) -> tuple[bool, list[Form]] | None:
        """Sums of which all are 0 or more, or one is, where this one is to be 0 or more."""
        operation, arguments = self.nodes[place]
        if operation == "pick":
            bys = arguments[0::2]
            return True, [self._picked(form, bys, index) for index in range(len(bys))]
        uses = [(p, f, e) for p, f in form.items() for node, e in p if node == place]
        signs = {(factor > 0) == (power > 0) for _, factor, power in uses}
        # A bound of a factor is one of the product where nothing else in it is below 0.
        bounds = all(self._counted([each for each in p if each[0] != place]) for p, _, _ in uses)
        single = all(power == 1 for _, _, power in uses)
        if operation in ("max", "min"):
            # An argument is at most the largest, which is one of them.
            away = self._away(form)
            nearest = sorted(arguments, key=lambda a: self._shared(a, away), reverse=True)
            bounds = bounds and (single or self._counted([(a, 1) for a in arguments]))
            every = not bounds or signs != {operation == "max"}
            return every, [_put(form, place, _power_of(argument)) for argument in nearest]
        if operation in ("ceil", "floor") and bounds and single:
            # Within one of what is rounded, and not one whole.
            one = 1 if operation == "ceil" else -1
            near: Form = {((arguments[0], 1),): 1}
            far: Form = {**near, (): one, ((self.slack, 1),): -one}
            nearer = {p: f for p, f in form.items() if (f > 0) == (operation == "ceil")}
            found = _put(nearer, place, lambda _: near)
            further = {p: f for p, f in form.items() if p not in nearer}
            for part, factor in _put(further, place, lambda _: far).items():
                found[part] += factor
            return True, [found]
        return None

    def _shared(self, place: int, wanted: set[int]) -> int:
        """How many of some nodes one is made of, itself included."""
        bits = self._behind[place] | 1 << place
        return sum(bits >> other & 1 for other in wanted)

    def _picked(self, form: Form, bys: Sequence[int], index: int) -> Form:
        """The sum where of the compared nodes one is largest: all that is picked by them, and the
        largest of them, is that one's."""
        for place in sorted({node for product in form for node, _ in product}, reverse=True):
            operation, arguments = self.nodes[place]
            if operation == "pick" and arguments[0::2] == bys:
                chosen = arguments[1::2][index]
            elif operation == "max" and arguments == bys:
                chosen = arguments[index]
            else:
                continue
            form = _put(form, place, _power_of(chosen))
        return form

    def covered(self, form: Form) -> bool:
        """Whether what is taken away is at most what is added, product for product."""
        left = {product: factor for product, factor in form.items() if factor > 0}
        if not all(self._counted(product) for product in form):
            return False
        for product, factor in form.items():
            if factor > 0:
                continue
            missing = Fraction(-factor)
            for other in left:
                most = self.most(_joined([*product, *((n, -e) for n, e in other)]))
                if most == INFINITE or not left[other]:
                    continue
                used = min(left[other], missing * Fraction(most))
                left[other] -= used
                missing = missing - used / Fraction(most) if most else Fraction(0)
                if not missing:
                    break
            if missing:
                return False
        return True

    def _counted(self, product: Sequence[tuple[int, int]]) -> bool:
        """Whether no factor of a product is below 0."""
        values = [self.values[node] for node, _ in product]
        return all(value is not None and value[0] >= 0 for value in values)

    def most(self, product: Product) -> Number:
        """The most that a product of nodes can be, where none is below 0."""
        left = dict(product)
        for above in [node for node, power in product if power == 1]:
            for below in [node for node, power in left.items() if power == -1]:
                if self.ordered(above, below):
                    del left[above], left[below]
                    break
        powers = [
            intervals.power(value, (power, power))
            for node, power in left.items()
            if (value := self.values[node]) is not None
        ]
        return intervals.times(*powers)[1]

    def ordered(self, less: int, more: int) -> bool:
        """Whether a node is soon proved to be at most another."""
        if (less, more) not in self._known and not self._aside:
            kept, self.left, self._aside = self.left, SHORT, True
            form: Form = {((less, 1),): -1, ((more, 1),): 1}
            self._known[less, more] = self.holds(form, 3)
            self.left, self._aside = kept, False
        return self._known.get((less, more), False)


def _joined(factors: Sequence[tuple[int, int]]) -> Product:
    """A product of powers, each node once."""
    powers: Counter[int] = Counter()
    for node, power in factors:
        powers[node] += power
    return tuple(sorted((node, power) for node, power in powers.items() if power))


def _put(form: Form, place: int, made: Callable[[int], Form]) -> Form:
    """A sum with a node in another form, which hangs on its power in a product."""
    found: Form = defaultdict(Fraction)
    for product, factor in form.items():
        power = dict(product).get(place, 0)
        rest = [each for each in product if each[0] != place]
        for part, count in (made(power) if power else {(): 1}).items():
            found[_joined([*rest, *part])] += factor * count
    return found


def _power_of(place: int) -> Callable[[int], Form]:
    return lambda power: {((place, power),): 1}
