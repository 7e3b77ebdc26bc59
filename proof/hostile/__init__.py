"""The most expensive requests of a hostile peer: see `worst.py`."""
