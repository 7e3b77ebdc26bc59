"""◇ What `moldau storage format` writes before a cluster first starts.  Start at `storage`."""
