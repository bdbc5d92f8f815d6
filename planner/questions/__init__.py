"""Questions over many plans: search, solve, studies, sensitivity."""
