"""● Everything an administrator asks of a cluster.  Start at `admin`, the one class that users need; each kind of group, partitions and
transactions have a file and a class of their own behind it."""

from moldau.clients.admin.admin import Admin, AlterOperation, ConfigChange, NewTopic, ResourceType

__all__ = ["Admin", "AlterOperation", "ConfigChange", "NewTopic", "ResourceType"]
