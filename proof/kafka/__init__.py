"""● Runs Apache Kafka beside us, asks both the same, and compares the answers.  Start with `apache.py`."""
