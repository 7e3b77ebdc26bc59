"""Brings what pip alone cannot: a Java runtime, and jars that are only published as Maven artefacts.

Start with `java.py` (find Java 17 or newer, or fetch one without root), then `jars.py` (named, checksummed sets of
jars).  All of it lands in one folder of the user's cache, is fetched once, may be interrupted at any point, and is
safe to ask for from many processes at once.
"""

from moldau.pipelines.provision.cache import ProvisionError
from moldau.pipelines.provision.jars import spark_connector_jars
from moldau.pipelines.provision.java import java_environment, java_home

__all__ = ["ProvisionError", "java_environment", "java_home", "spark_connector_jars"]
