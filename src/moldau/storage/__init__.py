"""A partition's log on disk, reached only through a `Files` object.  Start at `log`.

`flush/` brings logs to stable storage, `producers/` knows who wrote, `folders/` is what stands beside segments, `cleaner/` compacts,
`tiered/` copies to an object store.
"""
