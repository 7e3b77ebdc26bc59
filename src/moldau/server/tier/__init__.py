"""● Tiered storage of this broker: segments to the object store and back.  Start with `manager.py`."""
