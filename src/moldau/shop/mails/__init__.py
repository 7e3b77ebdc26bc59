"""● Mails: one for each order and state."""
