"""● The content of the live page."""
