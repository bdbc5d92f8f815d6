"""Studies: many plans at once, as a table and a comparison.

`study.py` reads the document, `grid.py` cuts its points into pieces, `arrays.py` (or `points.py`)
evaluates a piece, `table.py` makes rows of it, `journal.py` keeps what is done, `engines.py`
and `clusters.py` spread the work, `summary.py` gathers what the comparison says.
"""
