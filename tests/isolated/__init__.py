"""Tasks without a home or a database, as in pods: ``make slow``."""
