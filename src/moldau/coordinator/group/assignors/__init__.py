"""◇ The assignors: pure functions from subscriptions to assignments of partitions.  Start at `model`."""

from collections.abc import Mapping
from typing import Final

from moldau.coordinator.group.assignors import range as range_assignor
from moldau.coordinator.group.assignors import uniform
from moldau.coordinator.group.assignors.model import Assignor

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform.assign, "range": range_assignor.assign}
"""The assignors by the name that clients and `group.consumer.assignors` use."""
