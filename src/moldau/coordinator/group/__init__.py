"""◇ Groups: of the classic protocol, and with heartbeats consumer groups (KIP-848), share groups (KIP-932), streams groups (KIP-1071).

Start at `machine`, which finds the group of a request; then `classic`, or `heartbeat_group` and `consumer`.  Offsets are apart from groups:
`offset_requests` decides, `offsets` remembers.
"""
