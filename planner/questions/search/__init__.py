"""All layouts of a plan, and the best of them.

``layouts`` lists the valid ones as columns, ``engine`` runs them as a batch in chunks,
``bounded_search`` finds the one best, ``ranking`` prints what was found.
Everything here imports NumPy, but ``choices``.
"""
