"""Times single functions: every one marked `# hot: <budget>` in the source, by the case of the same name in `cases.py`."""
