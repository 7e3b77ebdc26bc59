"""Our laboratory of the metadata log's consensus: drivers behind doors of their own, and machines with a bag of messages between them."""
