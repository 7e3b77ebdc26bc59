"""◇ The progress of share groups in each partition: the share coordinator (KIP-932).  Start at `machine`."""
