"""Batches as Apache Kafka's own producer writes them, one segment a codec: `make golden` writes them anew.

Each line becomes a record with headers and key, some null.  The segments are copied as they lie on the broker's disk.  Timestamps and
producer ids are those of the run, so a new run changes the files, but not the keys, values and headers that
the test compares.
"""

from pathlib import Path
from typing import Final

from proof.kafka.apache import ApacheKafka, Tool, run_tool

FOLDER: Final = Path(__file__).parent / "record_batches"
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
LINES: Final = [
    *(f"source:java,number:{number}\tkey-{number % 7}\tvalue {number} {'x' * number}" for number in range(60)),
    "NULL\tNULL\tno headers, no key",
    "empty:,missing:NULL\tkey of a tombstone\tNULL",
    "ü:ö\tschlüssel\twört",
]
READER: Final = ("parse.key=true", "parse.headers=true", "null.marker=NULL")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with ApacheKafka() as kafka:
        for codec in CODECS:
            topic = f"golden-{codec}"
            kafka.topics("--create", "--topic", topic)
            reader = [part for one in READER for part in ("--reader-property", one)]
            arguments = ["--bootstrap-server", kafka.bootstrap, "--topic", topic, "--compression-codec", codec, *reader]
            run_tool(Tool.CONSOLE_PRODUCER, *arguments, stdin="".join(f"{line}\n" for line in LINES))
        kafka.stop()
        for codec in CODECS:
            segment = kafka.log_dir / f"golden-{codec}-0" / "00000000000000000000.log"
            (FOLDER / f"{codec}.log").write_bytes(segment.read_bytes())
            print(f"{codec}: {segment.stat().st_size} bytes")


if __name__ == "__main__":
    main()
