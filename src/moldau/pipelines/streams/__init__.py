"""● Kafka Streams' operators on Spark Structured Streaming.

Start reading at `builder`, the words of the DSL, and `topology`, the graph that `internal_topology` makes of them.  Each operator is a pure
processor (`aggregate`, `windowed`, `suppress`, `stream_join`, `table_join`, `foreign_key`): records in, a mapping as state, records out.
`Driver` runs a topology in memory, for tests; `spark` runs it on Spark, one task a partition.
"""

from moldau.pipelines.streams.builder import GlobalKTable, KStream, KTable, StreamsBuilder
from moldau.pipelines.streams.internal_topology import TopologyError
from moldau.pipelines.streams.on_close import EmitStrategy
from moldau.pipelines.streams.records import Change, Dropped, Record, Windowed
from moldau.pipelines.streams.serdes import BYTES, DOUBLE, JSON, LONG, STRING, Serde, json_as, nullable, session_windowed, time_windowed
from moldau.pipelines.streams.suppress import BufferFull
from moldau.pipelines.streams.topology import Driver, Topology
from moldau.pipelines.streams.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, WindowError

__all__ = [
    "BYTES", "BufferFull", "Change", "DOUBLE", "Driver", "Dropped", "EmitStrategy", "GlobalKTable", "JSON", "JoinWindows", "KStream",
    "KTable", "LONG", "Record", "STRING", "Serde", "SessionWindows", "SlidingWindows", "StreamsBuilder", "TimeWindows", "Topology",
    "TopologyError", "WindowError", "Windowed", "json_as", "nullable", "session_windowed", "time_windowed",
]  # fmt: skip
