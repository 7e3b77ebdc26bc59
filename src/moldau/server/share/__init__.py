"""● Share partitions of this broker: loaded, fetched from, acknowledged.  Start with `partitions.py`; sessions are in `sessions.py`."""
