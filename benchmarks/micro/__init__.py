"""Times single functions: every function marked `# hot: <budget>` in the source, by the case of the same name in `cases.py`."""
