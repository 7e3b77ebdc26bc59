"""◇ Groups of consumers: classic, KIP-848, share."""
