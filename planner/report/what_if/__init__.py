"""Plans as JavaScript: formulas and rules, printed from the same declarations."""
