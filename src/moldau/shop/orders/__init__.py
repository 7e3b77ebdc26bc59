"""● Orders: written once by their idempotency key, placed where the checks look for them, and kept in a view."""
