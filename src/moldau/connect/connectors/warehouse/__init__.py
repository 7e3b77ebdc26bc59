"""Warehouses: topics to Parquet files in folders and object stores, to Iceberg tables, to Delta tables.  Start with `tables.py`."""
