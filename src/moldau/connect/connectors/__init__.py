"""● The connectors that come with the worker."""
