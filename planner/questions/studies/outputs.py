"""What the ending of an output's file means: a table, or a comparison of a study."""

from __future__ import annotations

TABLES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
COMPARISONS = {".md": "md", ".markdown": "md", ".html": "html", ".htm": "html"}
