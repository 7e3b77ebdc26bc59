"""◇ Transactions."""
