"""● The coordinators of groups, transactions and share groups on the partitions that this broker leads.  Start with `coordinators.py`."""
