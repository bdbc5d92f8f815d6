"""YAML with places, references between documents, the JSON Schema and its errors."""
