"""Sums of products in normal form: the algebra of closed forms, without SymPy.

A form is a sum of monomials with rational coefficients; a monomial is a product of powers of atoms.
Atoms are symbols and whatever has no such form itself (a root, a rounding, a sum in a divisor).
Two expressions of sums, products and powers are equal where their forms are, so that the difference
of what a plan gives and what a paper prints is nought or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from fractions import Fraction
from functools import cache, reduce
from typing import Any

from planner.book.expressions import Expression, Symbol, make_in_order, make_number

Rational = int | Fraction
Monomial = frozenset[tuple[Expression, Rational]]
ONE: Monomial = frozenset()
#: The most terms of a sum whose powers are expanded.
SPREAD = 12
#: The most terms to which a product is expanded: beyond, a sum stays one factor.
MOST = 400


class Form:
    """A sum of monomials, as a mapping to their coefficients, none of which is 0."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, Any] = {}) -> None:
        """Keep the terms whose coefficient is not 0."""
        self.terms = {monomial: c for monomial, c in terms.items() if c}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self.terms == other.terms

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __add__(self, other: Form) -> Form:
        return sum_forms((self, other))

    def __sub__(self, other: Form) -> Form:
        return self + make_constant(-1) * other

    def __mul__(self, other: Form) -> Form:
        for sum_, single in ((self, other), (other, self)):
            if len(sum_.terms) > 1 and len(single.terms) == 1:
                cancelled = _cancel_sum(sum_, single)
                if cancelled is not None:
                    return cancelled
        if len(self.terms) * len(other.terms) > MOST:
            return _wrap_sum(self) * _wrap_sum(other)
        found: dict[Monomial, Rational] = {}
        for one, c in self.terms.items():
            for another, d in other.terms.items():
                both = _combine_powers(one, another)
                product = d if c == 1 else c if d == 1 else c * d
                found[both] = found[both] + product if both in found else product
        return Form(found)

    def __truediv__(self, other: Form) -> Form:
        return self * other**-1

    def __pow__(self, exponent: Rational) -> Form:
        if len(self.terms) == 1:
            ((monomial, c),) = self.terms.items()
            if exponent.denominator == 1:
                c = c if c == 1 else Fraction(c) ** int(exponent)
                return Form({_raise_monomial(monomial, exponent): c})
            if c == 1:
                return Form({_raise_monomial(monomial, exponent): 1})
        if exponent.denominator == 1 and 0 <= exponent <= 3 and len(self.terms) <= SPREAD:
            return reduce(Form.__mul__, [self] * exponent.numerator, make_constant(1))
        content, rest = self.split_factor()
        if exponent.denominator != 1:
            return Form({frozenset({(self.to_tree(), exponent)}): 1})
        return content**exponent * Form({frozenset({(rest.to_tree(), exponent)}): 1})

    @property
    def atoms(self) -> set[Expression]:
        """The symbols, and the functions of forms, that its terms are made of."""
        return {atom for monomial in self.terms for atom, _ in monomial}

    @property
    def symbols(self) -> frozenset[Symbol]:
        """All symbols in it, including those inside other atoms."""
        return frozenset().union(*(atom.symbols for atom in self.atoms))

    def split_factor(self) -> tuple[Form, Form]:
        """Split into a single term and the rest, whose product is this form: two forms that differ
        by a factor have the same rest."""
        powers = list(map(dict, self.terms))
        least = ((base, min(each.get(base, 0) for each in powers)) for base in self.atoms)
        common = Form({frozenset((base, power) for base, power in least if power): 1})
        rest = self * common**-1
        first = rest.terms[min(rest.terms, key=_make_term_key)]
        return make_constant(first) * common, make_constant(Fraction(1) / first) * rest

    def divide_by(self, other: Form) -> Form | None:
        """Return the single term that, times another form, gives this one, or None."""
        if not self.terms or len(self.terms) != len(other.terms):
            return None
        (mine, one), (theirs, another) = self.split_factor(), other.split_factor()
        return mine / theirs if one == another else None

    def drop_atoms(self, ones: Collection[Expression]) -> Form:
        """Return the form with some atoms set to 1."""
        found: dict[Monomial, Rational] = {}
        for monomial, coefficient in self.terms.items():
            rest = frozenset(pair for pair in monomial if pair[0] not in ones)
            found[rest] = found.get(rest, 0) + coefficient
        return Form(found)

    def count_symbols(self) -> int:
        """Count the symbols with which it is written, each as often as it occurs."""
        return sum(map(len, self.terms))

    def split_terms(self, factor: Form) -> tuple[Form, Form]:
        """Split into the terms that get no longer when a factor is divided out, and the others."""
        inside, outside = Form(), Form()
        for monomial, coefficient in self.terms.items():
            term = Form({monomial: coefficient})
            less = term / factor
            if less.count_symbols() <= len(monomial):
                inside += less
            else:
                outside += term
        return inside, outside

    def to_tree(self, factor: Form | None = None) -> Expression:
        """Return it as an expression; with ``factor``, as the factor times some terms, plus the
        others."""
        if factor is not None:
            inside, outside = self.split_terms(factor)
            whole = _build_product([*_unpack_factors(factor), inside.to_tree()])
            others = [_term(m, outside.terms[m]) for m in sorted(outside.terms, key=_make_term_key)]
            return make_in_order("add", (whole, *others)) if others else whole
        terms = [_term(m, self.terms[m]) for m in sorted(self.terms, key=_make_term_key)]
        if len(terms) == 1:
            return terms[0]
        return make_in_order("add", tuple(terms)) if terms else make_number(0)


def sum_forms(forms: Iterable[Form]) -> Form:
    """Sum some forms."""
    found: dict[Monomial, Any] = {}
    for form in forms:
        for monomial, c in form.terms.items():  # 0 plus a Fraction would be made anew
            found[monomial] = found[monomial] + c if monomial in found else c
    return Form(found)


def make_constant(value: int | Fraction | float) -> Form:
    """Make a form without symbols; a float becomes the fraction that it is exactly."""
    return Form({ONE: Fraction(value) if isinstance(value, float) else value})


def atom(expression: Expression) -> Form:
    """Make a form of one expression that is not taken apart."""
    return Form({frozenset({(expression, 1)}): 1})


def to_form(tree: Expression, leaf: Callable[[Expression], Form | None]) -> Form:
    """Convert an expression to a form; a subtree for which ``leaf`` returns a form becomes that."""
    known = leaf(tree)
    if known is not None:
        return known
    if tree.op == "number":
        return make_constant(tree.data)
    parts = [to_form(argument, leaf) for argument in tree.args]
    if tree.op == "add":
        return sum_forms(parts)
    if tree.op == "mul":
        return reduce(Form.__mul__, parts)
    if tree.op == "pow" and parts[0] == make_constant(1):
        return parts[0]
    if tree.op == "pow" and tree.args[1].op == "number":
        exponent: Rational = tree.args[1].data
        return parts[0] ** exponent
    return atom(make_in_order(tree.op, tuple(part.to_tree() for part in parts), tree.data))


def flatten_tree(tree: Expression) -> Expression:
    """Flatten an expression, in its written order, for print, so that a paper's equation keeps its
    shape: no nested sums or products, and numbers combined."""
    if not tree.args:
        return tree
    args = [flatten_tree(argument) for argument in tree.args]
    if tree.op not in ("add", "mul"):
        return make_in_order(tree.op, tuple(args), tree.data)
    args = [inner for one in args for inner in (one.args if one.op == tree.op else (one,))]
    join = sum if tree.op == "add" else math.prod
    numbers = join(one.data for one in args if one.op == "number")
    others = [one for one in args if one.op != "number"]
    if numbers != (tree.op == "mul") or not others:
        others.insert(0, make_number(numbers))
    return others[0] if len(others) == 1 else make_in_order(tree.op, tuple(others))


def _combine_powers(one: Monomial, other: Monomial) -> Monomial:
    """Multiply two monomials: exponents are added up, and those that become 0 go."""
    if not one or not other:
        return one or other
    powers = dict(one)
    for base, power in other:
        powers[base] = powers.get(base, 0) + power
    return frozenset((base, power) for base, power in powers.items() if power)


def _cancel_sum(total: Form, single: Form) -> Form | None:
    """Cancel a sum with a power of itself in a term's divisor; return None if there is none."""
    ((monomial, coefficient),) = single.terms.items()
    for base, power in monomial:
        if power < 0 and base.op == "add" and len(base.args) == len(total.terms):
            ratio = total.divide_by(
                to_form(base, lambda e: atom(e) if isinstance(e, Symbol) else None)
            )
            if ratio is not None:
                rest = _combine_powers(monomial, frozenset({(base, 1)}))
                return ratio * Form({rest: coefficient})
    return None


def _raise_monomial(monomial: Monomial, exponent: Rational) -> Monomial:
    """Raise a monomial to a power."""
    return frozenset((base, power * exponent) for base, power in monomial if exponent)


def _wrap_sum(form: Form) -> Form:
    """Wrap a sum as a single atom."""
    return form if len(form.terms) == 1 else atom(form.to_tree())


@cache
def _make_sort_key(base: Expression) -> str:
    """Return a text that sorts factors in a fixed order."""
    return repr(base)


def _make_term_key(monomial: Monomial) -> list[tuple[str, Rational]]:
    """Return a key that sorts terms in a fixed order; print has its own."""
    return sorted((_make_sort_key(base), -power) for base, power in monomial)


def _unpack_factors(form: Form) -> list[Expression]:
    """List the factors of a form of one term."""
    ((monomial, coefficient),) = form.terms.items()
    powers = (
        base if power == 1 else make_in_order("pow", (base, make_number(power)))
        for base, power in sorted(monomial, key=lambda pair: (_make_sort_key(pair[0]), pair[1]))
    )
    return [*([make_number(coefficient)] if coefficient != 1 else []), *powers]


def _term(monomial: Monomial, coefficient: Rational) -> Expression:
    """Return one term of a form as an expression."""
    return _build_product(_unpack_factors(Form({monomial: coefficient})))


def _build_product(factors: Iterable[Expression]) -> Expression:
    """Build a product without factors of 1."""
    found = [factor for factor in factors if factor is not make_number(1)]
    if len(found) == 1:
        return found[0]
    return make_in_order("mul", tuple(found)) if found else make_number(1)
