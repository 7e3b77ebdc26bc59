"""Our laboratory of the metadata log's consensus: drivers behind a door of their own, and machines with a bag of messages between them."""
