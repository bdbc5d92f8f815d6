"""Studies: many plans at once, as a table and a comparison.

`study.py` reads the document, `work.py` cuts its points into pieces, `evaluator.py` evaluates one,
`table.py` makes rows of it, `pieces.py` keeps what is done, `engines.py` spreads the work,
`summary.py` gathers what the comparison says.
"""
