"""● Changes of PostgreSQL tables to topics, in Debezium's envelope: `pgoutput` ◇ reads the log's messages, `source` ● asks for them."""
