"""● Transactions under fire: clients, readers, and the promises to both.  Start with `history.py`."""
