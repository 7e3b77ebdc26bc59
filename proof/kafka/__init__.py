"""● Apache Kafka beside us: run, asked the same, compared.  Start with `apache.py`."""
