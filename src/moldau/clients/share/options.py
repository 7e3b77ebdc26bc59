"""◇ A share consumer's options, by Kafka's names.  Source: ShareConsumerConfig; KIP-932."""

from dataclasses import dataclass
from typing import Final

from moldau.clients.options import ClientOptions, require

MODES: Final = ("implicit", "explicit")
ACQUIRE_MODES: Final = ("batch_optimized", "record_limit")
"""The acquire modes by their numbers on the wire (KIP-1206)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerOptions(ClientOptions):
    """The share consumer's options.

    `share_acknowledgement_mode` implicit: the records of a poll count as accepted at the next poll or commit; explicit: each must be
    acknowledged.
    `share_acquire_mode` record_limit: at most max_poll_records at a time, not whole batches (KIP-1206).
    """

    group_id: str | None = None
    max_poll_records: int = 500
    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    share_acknowledgement_mode: str = "implicit"
    share_acquire_mode: str = "batch_optimized"

    def check(self) -> None:
        ClientOptions.check(self)
        require(
            self.share_acknowledgement_mode in MODES,
            "share_acknowledgement_mode",
            self.share_acknowledgement_mode,
            f"{' or '.join(MODES)} is expected",
        )
        require(self.share_acquire_mode in ACQUIRE_MODES, "share_acquire_mode", self.share_acquire_mode, " or ".join(ACQUIRE_MODES))
        for name in ("max_poll_records", "fetch_max_bytes"):
            require(getattr(self, name) > 0, name, getattr(self, name), "it has to be above 0")
        for name in ("fetch_max_wait_ms", "fetch_min_bytes"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "it cannot be negative")

    @property
    def accepts_implicitly(self) -> bool:
        return self.share_acknowledgement_mode == "implicit"

    @property
    def acquire_mode(self) -> int:
        return ACQUIRE_MODES.index(self.share_acquire_mode)
