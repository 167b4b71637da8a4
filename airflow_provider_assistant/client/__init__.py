"""HTTP client of the Assistant M2M API."""
