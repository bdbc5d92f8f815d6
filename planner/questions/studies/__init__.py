"""Studies: many plans at once, as a table and a comparison.

`study.py` reads the document, `work.py` cuts its points into pieces, `evaluator.py` evaluates one,
`table.py` makes rows of it, `pieces.py` stores finished ones, `engines.py` distributes the work,
`summary.py` collects the facts of the comparison.
"""

#: The format of an output by its ending: a table, or a comparison.
TABLES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
COMPARISONS = {".md": "md", ".markdown": "md", ".html": "html", ".htm": "html"}
