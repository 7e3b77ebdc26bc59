"""● The programs that people run: all speak through `clients`.  Start at `cli/main.py`; `reference` writes docs/reference."""
