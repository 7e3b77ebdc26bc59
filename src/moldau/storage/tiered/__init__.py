"""◇● Tiered storage (KIP-405): older segments live in an object store, their metadata in `__remote_log_metadata`.

Start with `segments` (what is known of one remote segment), `remote_log` (of all of a partition's), `decisions` (what is copied, what
expires); then `copier` and `reader`, which do it over an object store (`store`).  `server/tier/manager.py` puts them to work.
"""
