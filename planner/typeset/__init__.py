"""Formulas in print: LaTeX, MathML and plain text from one walk over the SymPy tree.

``boxes`` turns an expression into a small tree of boxes, once with symbols and once with the
numbers in their places; a style (``latex``, ``mathml``, ``text``) turns boxes into a string.
SymPy's own printers cost ten times as much, know no folds, and order factors in their own way.
"""

from planner.typeset.boxes import Box, Typesetter
from planner.typeset.names import Name, parse
from planner.typeset.styles import HTML, LATEX, MATHML, TEXT, Style

__all__ = ["HTML", "LATEX", "MATHML", "TEXT", "Box", "Name", "Style", "Typesetter", "parse"]
