"""Measures us beside Apache Kafka 4.3.1 and Tansu on this machine: `make bench`, or `python -m benchmarks --help`.

Start with `scenarios.py`, the list of what is measured.  `generator.py` is the raw load, `clients.py` the load by
librdkafka and Java, `peers.py` starts the brokers, `report.py` prints ratios.  `micro/` times single functions.
"""
