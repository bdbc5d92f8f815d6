"""Studies: many plans at once, as a table and a comparison.

`study.py` reads the document, `work.py` cuts its points into pieces, `evaluator.py` evaluates one,
`table.py` makes rows of it, `pieces.py` keeps what is done, `engines.py` spreads the work,
`summary.py` gathers what the comparison says.
"""

#: What the ending of an output's file means: a table, or a comparison.
TABLES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
COMPARISONS = {".md": "md", ".markdown": "md", ".html": "html", ".htm": "html"}
