"""The formulas that a case needs, as one list of operations: what all back ends run.

A node is a number: its index in the list. Equal computations are one node, and a node comes after
its operands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

#: A node: its operation, and its arguments (nodes, or data for the leaves).
Content = tuple[str, tuple[Any, ...]]
Number = int | Fraction | float
#: Placeholder of a value that is not computed yet.
UNKNOWN = object()
#: Operations whose arguments are data, not nodes.
LEAVES = frozenset(("const", "input", "name", "absent", "is", "present"))


class Graph:
    """Nodes in the order of evaluation.

    Leaves: ``const`` (a number, and whether it is a float), ``input`` (a symbol, and the entries
    that bind it), ``name`` (any data), ``absent`` (a reason), ``is`` (a setting and the values
    wanted), ``present`` (a key of entries).
    Operations: ``quantity`` (a value and the name of what it is the value of), ``add``, ``mul``,
    ``div``, ``pow``, ``exp``, ``tanh``, ``log``, ``max``, ``min``, ``ceil``, ``floor``,
    ``pick`` (by, body, …: the body at the largest ``by``, the first of equals), ``which`` (values,
    and the names of which that of the largest is taken), ``and`` (conditions), ``select``
    (condition, value, …: the first whose condition is true, NaN where none is).
    """

    #: Whether a product is divided by whatever has a negative power, or by reciprocals only.
    inverts = False

    def __init__(self) -> None:
        self.nodes: list[Content] = []
        self.inputs: list[int] = []
        #: Nodes that have no value whatever the inputs are, with the reason.
        self.lacking: dict[int, str] = {}
        self._places: dict[Content, int] = {}
        self._last: tuple[Any, list[int]] = ((), [])

    def add_node(self, operation: str, *arguments: Any) -> int:
        """Add a node, or find the equal one; return its index.

        Args:
            operation: of ``Graph``, or of a back end.
            arguments: nodes; data for a leaf. An operand that never has a value makes the node lack
                one.
        """
        content = (operation, arguments)
        place = self._places.get(content)
        if place is None:
            place = self._places[content] = len(self.nodes)
            self.nodes.append(content)
            if operation == "input":
                self.inputs.append(place)
            elif operation not in LEAVES and self.lacking.keys() & arguments:
                reason = self._find_reason(operation, arguments)
                if reason is not None:
                    self.lacking[place] = reason
        return place

    def _find_reason(self, operation: str, arguments: tuple[int, ...]) -> str | None:
        """Return why a node has no value; a body that is not picked may be absent."""
        needed = arguments[0::2] if operation == "pick" else arguments
        bodies = arguments[1::2] if operation == "pick" else ()
        if bodies and all(place in self.lacking for place in bodies):
            return self.lacking[bodies[-1]]
        return next((self.lacking[p] for p in needed if p in self.lacking), None)

    def list_needed(self, roots: Iterable[int], values: Sequence[Any] | None = None) -> list[int]:
        """Collect some nodes and all nodes that they need, in evaluation order; with ``values``,
        only those whose value is still ``UNKNOWN``."""
        found = set(roots)
        waiting = [*found]
        while waiting:
            operation, arguments = self.nodes[waiting.pop()]
            if operation not in LEAVES:
                for place in arguments:
                    if place not in found and (values is None or values[place] is UNKNOWN):
                        found.add(place)
                        waiting.append(place)
        return sorted(found)

    def list_dependents(self, moved: Iterable[int]) -> list[int]:
        """Collect changed nodes and all that depend on them, in evaluation order. The last answer
        is cached: plans that are tried one after another differ in the same inputs."""
        asked = (len(self.nodes), *moved)
        if self._last[0] != asked:
            found = set(moved)
            for place, (operation, arguments) in enumerate(self.nodes):
                if operation not in LEAVES and not found.isdisjoint(arguments):
                    found.add(place)
            self._last = (asked, sorted(found))
        return self._last[1]

    def add_constant(self, value: Number) -> int:
        """Add a number, integers in one form; 2 and 2.0 stay two nodes, for one of them is
        exact."""
        if isinstance(value, Fraction):
            value = value.numerator if value.denominator == 1 else value
        return self.add_node("const", value, type(value) is float)

    def get_number(self, place: int) -> Number | None:
        """Return the number that a node is, or None if it is not a constant."""
        operation, arguments = self.nodes[place]
        return arguments[0] if operation == "const" else None

    def add_absent(self, reason: str) -> int:
        """Add a node that has no value in any case, with the reason."""
        place = self.add_node("absent", reason)
        self.lacking[place] = reason
        return place

    def add_input(self, symbol: Any, scope: tuple[Any, ...], value: Any) -> int:
        """Add a symbol that entries or the plan bind.

        Args:
            symbol: of the book's notation.
            scope: the entries that bind it, empty for the plan.
            value: in the case at hand; a graph that is evaluated in many cases ignores it.
        """
        return self.add_node("input", symbol, *scope)

    def add_quantity(self, value: int, key: Any) -> int:
        """Add the value of an instance of a quantity."""
        return self.add_node("quantity", value, self.add_node("name", key))

    def add_sum(self, terms: Iterable[int]) -> int:
        """Add a sum in the given order; 0 without terms."""
        return self._join_nodes("add", tuple(terms), 0)

    def add_product(self, factors: Iterable[int], divisors: Iterable[int] = ()) -> int:
        """Add a product of factors, divided by the product of divisors."""
        above, below = self._join_nodes("mul", tuple(factors), 1), tuple(divisors)
        if not below:
            return above
        return self.add_node("div", above, self._join_nodes("mul", below, 1))

    def add_power(self, base: int, exponent: int) -> int:
        """Add a power. An exponent that is no integer makes the value a float."""
        return self.add_node("pow", base, exponent)

    def add_extreme(self, operation: str, values: Iterable[int]) -> int:
        """Add the ``max`` or ``min`` of some values; there must be at least one."""
        return self._join_nodes(operation, tuple(values), 0)

    def add_pick(self, bys: Sequence[int], bodies: Sequence[int]) -> int:
        """Add the body at the largest ``by``."""
        return self.add_node("pick", *(p for pair in zip(bys, bodies, strict=True) for p in pair))

    def add_and(self, conditions: Iterable[int]) -> int:
        """Add the conjunction of some conditions."""
        return self._join_nodes("and", tuple(sorted(set(conditions))), 1)

    def add_select(self, cases: Sequence[tuple[int, int]]) -> int:
        """Add the value of the first true condition."""
        return self.add_node("select", *(place for case in cases for place in case))

    def _join_nodes(self, operation: str, places: tuple[int, ...], neutral: int) -> int:
        """Add an operation on several nodes; a single one stands for itself, none for
        ``neutral``."""
        if len(places) > 1:
            return self.add_node(operation, *places)
        return places[0] if places else self.add_constant(neutral)
