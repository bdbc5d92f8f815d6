"""The formulas: quantities with unit, source and why-sentence, their notation and inventory."""
