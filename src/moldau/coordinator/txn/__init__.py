"""◇ Transactions.  Start at `coordinator`; `state` says which state may follow which."""
