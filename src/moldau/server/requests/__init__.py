"""● The way from a frame to a handler and back: listeners, dispatch, fetch sessions.  Start with `dispatch.py`."""
