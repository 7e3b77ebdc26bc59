"""● From a frame to a handler and back: listeners, dispatch, sessions of fetches.  Start with `dispatch.py`."""
