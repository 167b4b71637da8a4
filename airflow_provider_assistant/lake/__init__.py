"""
Parquet datasets, and the warehouse that they are loaded into.

A dataset is a folder with one Hive-style partition per day. Each file of a day is replaced as a whole: a reader sees
the old rows or the new ones, and a re-run creates no duplicates.
"""
