"""● The shop as a black box: its parts as processes that are killed, a mail server that counts, orders from Java's producer and by REST."""
