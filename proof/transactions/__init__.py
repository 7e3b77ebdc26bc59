"""● Transactions under fire: clients, readers, and what must hold of both.  Start with `history.py`."""
