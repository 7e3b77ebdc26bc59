"""Moldau: Apache Kafka in Python.

Start reading at `moldau.server.node` (what a process is made of), then follow the journeys in docs/ARCHITECTURE.md.
"""

__version__ = "0.1.0"
