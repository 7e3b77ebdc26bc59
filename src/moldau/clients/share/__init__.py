"""● The consumer of share groups (KIP-932).  All of it is in `consumer`."""

from moldau.clients.share.consumer import Acknowledge, ShareConsumer, ShareConsumerOptions, SharedRecord, runs_of

__all__ = ["Acknowledge", "ShareConsumer", "ShareConsumerOptions", "SharedRecord", "runs_of"]
