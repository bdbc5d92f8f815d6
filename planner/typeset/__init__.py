"""Formulas in print: LaTeX, MathML and plain text from one walk over the tree.

A ``Typesetter`` turns an expression into a small tree of boxes, once with symbols and once with the
numbers in their places; a style (``LATEX``, ``MATHML``, ``TEXT``, ``HTML``) writes them down.
SymPy's own printers cost ten times as much, know no folds, and order factors in their own way.
"""
