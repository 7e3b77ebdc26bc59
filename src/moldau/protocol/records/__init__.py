"""◇ Record batches v2: view, build, compress, control records.  Start at `batch`."""
