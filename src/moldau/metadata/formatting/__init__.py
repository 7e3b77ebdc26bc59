"""◇ The files that `moldau storage format` writes before a cluster first starts.  Start at `storage`."""
