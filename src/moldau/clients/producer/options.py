"""◇ The producer's options, by Kafka's names.

Source: ProducerConfig.java.

Defaults that differ from Kafka's: linger_ms is 0, because a batch that is not full waits anyway while another one of its partition is on
its way.  batch_size is 128 KiB, and buffer_memory is 64 MiB.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.clients.options import ClientOptions, require, require_objects
from moldau.protocol.records.compression import Codec

ACKS: Final[Mapping[str, int]] = {"all": -1, "-1": -1, "0": 0, "1": 1}
MAX_IN_FLIGHT_WITH_IDEMPOTENCE: Final = 5
"""How many batches of a producer a broker remembers.  Source: ProducerStateEntry.NUM_BATCHES_TO_RETAIN."""

LEVELS: Final[Mapping[str, range]] = {
    "compression_gzip_level": range(1, 10),
    "compression_lz4_level": range(1, 18),
    "compression_zstd_level": range(-131072, 23),
}
"""The levels of each codec.  Source: CompressionType."""
DEFAULT_GZIP_LEVEL: Final = -1

Serializer = Callable[[Any], bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """The producer's options.

    `acks`: all in-sync replicas, 1 the leader, 0 no acknowledgement (offsets are then unknown).  `enable_idempotence` None: on with
    acks=all.
    """

    acks: str | int = "all"
    enable_idempotence: bool | None = None
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    max_in_flight_requests_per_connection: int = 5
    linger_ms: int = 0
    batch_size: int = 128 * 1024
    max_request_size: int = 1024 * 1024
    buffer_memory: int = 64 * 1024 * 1024
    max_block_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    retries: int = (1 << 31) - 1
    compression_type: str = "none"
    compression_gzip_level: int | None = None
    compression_lz4_level: int | None = None
    compression_zstd_level: int | None = None
    partitioner: Any = "default"
    partitioner_ignore_keys: bool = False
    partitioner_adaptive_partitioning_enable: bool = True
    key_serializer: Serializer | None = None
    value_serializer: Serializer | None = None
    interceptors: Any = ()

    def check(self) -> None:
        ClientOptions.check(self)
        require(str(self.acks) in ACKS, "acks", self.acks, "all, 1 or 0 is expected")
        try:
            Codec.from_name(self.compression_type)
        except ValueError as error:
            require(False, "compression_type", self.compression_type, str(error))
        for name, levels in LEVELS.items():
            level = getattr(self, name)
            is_default = level is None or (name == "compression_gzip_level" and level == DEFAULT_GZIP_LEVEL)
            require(is_default or level in levels, name, level, f"{levels[0]} to {levels[-1]} is expected")
        require_objects("interceptors", self.interceptors)
        for name in ("batch_size", "linger_ms", "max_block_ms", "retries"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "it cannot be negative")
        for name in ("max_request_size", "buffer_memory", "max_in_flight_requests_per_connection", "transaction_timeout_ms"):
            require(getattr(self, name) > 0, name, getattr(self, name), "it has to be above 0")
        least_ms = self.linger_ms + self.request_timeout_ms
        require(
            self.delivery_timeout_ms >= least_ms,
            "delivery_timeout_ms",
            self.delivery_timeout_ms,
            f"linger.ms and request.timeout.ms together are {least_ms}, and it has to be at least as much",
        )
        self._check_idempotence()

    def _check_idempotence(self) -> None:
        if self.transactional_id is not None:
            require(bool(self.transactional_id), "transactional_id", self.transactional_id, "it cannot be empty")
            require(self.enable_idempotence is not False, "enable_idempotence", False, "transactions need it")
        if not self.enable_idempotence and self.transactional_id is None:
            return
        why = "idempotence and transactions need"
        require(self.acks_number == -1, "acks", self.acks, f"{why} acks=all")
        require(self.retries > 0, "retries", self.retries, f"{why} retries")
        require(
            self.max_in_flight_requests_per_connection <= MAX_IN_FLIGHT_WITH_IDEMPOTENCE,
            "max_in_flight_requests_per_connection",
            self.max_in_flight_requests_per_connection,
            f"{why} {MAX_IN_FLIGHT_WITH_IDEMPOTENCE} at most",
        )

    @property
    def acks_number(self) -> int:
        return ACKS[str(self.acks)]

    @property
    def is_idempotent(self) -> bool:
        if self.enable_idempotence is not None:
            return self.enable_idempotence
        return self.acks_number == -1 and self.retries > 0 and self.max_in_flight_requests_per_connection <= MAX_IN_FLIGHT_WITH_IDEMPOTENCE

    @property
    def codec(self) -> Codec:
        return Codec.from_name(self.compression_type)

    @property
    def compression_level(self) -> int | None:
        levels = {Codec.GZIP: self.compression_gzip_level, Codec.LZ4: self.compression_lz4_level, Codec.ZSTD: self.compression_zstd_level}
        return levels.get(self.codec)
