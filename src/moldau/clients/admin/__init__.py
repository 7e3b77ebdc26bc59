"""● The admin client.  Start at `admin`, the one class that users need; each of its rooms has a file."""

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.values import AlterOperation, ConfigChange, NewTopic, ResourceType

__all__ = ["Admin", "AlterOperation", "ConfigChange", "NewTopic", "ResourceType"]
