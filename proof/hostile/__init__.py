"""What a peer can ask that costs most: see `worst.py`."""
