"""◇ How far share groups have come with each partition: the share coordinator (KIP-932).  Start at `machine`."""
