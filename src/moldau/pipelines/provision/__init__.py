"""Brings what pip alone cannot: a Java runtime.

Start with `java.py`: it finds Java 17 or newer, or fetches one without root.  That lands in the user's cache, is fetched once, may be
interrupted at any point, and is safe to ask for from many processes at once.
"""

from moldau.pipelines.provision.cache import ProvisionError
from moldau.pipelines.provision.java import java_environment, java_home

__all__ = ["ProvisionError", "java_environment", "java_home"]
