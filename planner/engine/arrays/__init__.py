"""The formulas as one graph of operations over many rows: what a search runs through NumPy.

``graph`` builds it, ``table`` groups rows that agree in what a node depends on, ``program`` runs
each node once for each distinct combination.
"""
