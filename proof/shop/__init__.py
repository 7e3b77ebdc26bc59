"""● The shop as a black box: its parts as processes that are killed, a mail server that counts, orders from Java and by REST."""
