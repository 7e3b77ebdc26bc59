"""● Producer, consumer, admin."""
