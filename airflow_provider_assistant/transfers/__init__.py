"""Operators that copy data from the Assistant or the ledger to Parquet, and from Parquet to a warehouse."""
