"""● `moldau kafka-dump-log`: prints what is in segments, indexes and snapshots, in the lines of kafka-dump-log.sh."""

import argparse
import mmap
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from moldau.tools.cli.dump import indexes, segments
from moldau.tools.cli.dump.decoders import DECODERS, Decoder, text
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.types import METADATA_TOPIC

STRING_DECODER: Final = "org.apache.kafka.tools.api.StringDecoder"


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.files is None:
        raise parser.missing("files")
    decoder = chosen_decoder(options)
    report = Report()
    for name in options.files.split(","):
        dump_file(Path(name.strip()), options, decoder, report)
    report.print()
    return 0


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-dump-log",
        "Print what is in a broker's files, as kafka-dump-log.sh does.",
        examples=["--files /data/orders-0/00000000000000000000.log --print-data-log"],
    )
    parser.add_version()
    add = parser.add_argument
    add("--files", metavar="FILE,FILE", help="the files, comma separated")
    add("--deep-iteration", action="store_true", help="print records too, not only batches")
    add("--print-data-log", action="store_true", help="print keys and values too")
    add("--skip-record-metadata", action="store_true", help="print only keys and values of records")
    add("--index-sanity-check", action="store_true", help="only check an index as a broker does when it starts")
    add("--verify-index-only", action="store_true", help="compare an index with its log without printing it")
    add("--max-bytes", type=int, default=segments.NO_LIMIT, metavar="BYTES", help="read at most this of each log")
    add("--max-message-size", type=int, default=5242880, help=argparse.SUPPRESS)  # taken and not needed
    add("--cluster-metadata-decoder", action="store_true", help="decode records of the metadata log")
    add("--offsets-decoder", action="store_true", help="decode records of __consumer_offsets")
    add("--transaction-log-decoder", action="store_true", help="decode records of __transaction_state")
    add("--share-group-state-decoder", action="store_true", help="decode records of __share_group_state")
    for name in ("--key-decoder-class", "--value-decoder-class"):
        add(name, nargs="?", default=STRING_DECODER, metavar="CLASS", help="only StringDecoder")
    return parser


def chosen_decoder(options: argparse.Namespace) -> Decoder | None:
    for name, topic in (
        ("cluster_metadata_decoder", METADATA_TOPIC),
        ("offsets_decoder", "__consumer_offsets"),
        ("transaction_log_decoder", "__transaction_state"),
        ("share_group_state_decoder", "__share_group_state"),
    ):
        if getattr(options, name):
            return DECODERS[topic]
    for given in (options.key_decoder_class, options.value_decoder_class):
        if given not in (None, STRING_DECODER, STRING_DECODER.replace("org.apache.kafka.tools.api", "kafka.serializer")):
            raise Failure(f"the decoder {given} is a Java class", f"Only {STRING_DECODER} is supported")
    return text if options.print_data_log else None


class Report:
    """The problems that were found, printed after everything else, as Kafka does."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, title: str, pairs: Iterable[tuple[int, int]], layout: str) -> None:
        shown = [layout.format(*pair) for pair in pairs]
        if shown:
            self.lines += [title, *shown]

    def print(self) -> None:
        for line in self.lines:
            print(line, file=sys.stderr)


def dump_file(path: Path, options: argparse.Namespace, decoder: Decoder | None, report: Report) -> None:
    """Prints one file.  Errors: Failure."""
    print(f"Dumping {path}")
    try:
        if path.suffix in (segments.LOG, segments.SNAPSHOT):
            _dump_segment(path, options, decoder, report)
        elif path.suffix == ".index":
            _dump_offset_index(path, options, report)
        elif path.suffix == ".timeindex":
            _dump_time_index(path, options, report)
        elif path.suffix in (".txnindex", ".snapshot"):
            with _mapped(path) as data:
                lines = indexes.transaction_index_lines(data) if path.suffix == ".txnindex" else indexes.snapshot_lines(data)
                _print(lines)
        else:
            print(f"Ignoring unknown file {path}", file=sys.stderr)
    except indexes.BrokenIndex as error:
        raise Failure(f"{path}: {error}") from error
    except OSError as error:
        raise Failure(f"{error.filename or path}: {(error.strerror or str(error)).lower()}") from error


def _dump_segment(path: Path, options: argparse.Namespace, decoder: Decoder | None, report: Report) -> None:
    _base_offset(path)
    dump = segments.SegmentDump(
        path.name,
        deep=options.deep_iteration or decoder is not None,
        decoder=decoder,
        skip_metadata=options.skip_record_metadata,
        max_bytes=options.max_bytes,
    )
    with _mapped(path) as data:
        _print(dump.lines(data))
    report.add(f"Non-consecutive offsets in {path.absolute()}", dump.gaps, "  {} is followed by {}")


def _dump_offset_index(path: Path, options: argparse.Namespace, report: Report) -> None:
    base_offset = _base_offset(path)
    with _mapped(path) as data, _mapped(path.with_suffix(".log")) as log:
        if not len(data):
            print(f"{path} is empty.")
        elif options.index_sanity_check:
            indexes.check_offset_index(data, base_offset)
            print(f"{path} passed sanity check.")
        else:
            dump = indexes.OffsetIndexDump(base_offset, verify_only=options.verify_index_only)
            _print(dump.lines(data, log))
            report.add(f"Mismatches in :{path.absolute()}", dump.mismatches[::-1], "  Index offset: {}, log offset: {}")


def _dump_time_index(path: Path, options: argparse.Namespace, report: Report) -> None:
    base_offset = _base_offset(path)
    with _mapped(path) as data, _mapped(path.with_suffix(".index")) as index, _mapped(path.with_suffix(".log")) as log:
        if options.index_sanity_check:
            indexes.check_time_index(data, base_offset)
            print(f"{path} passed sanity check.")
            return
        dump = indexes.TimeIndexDump(base_offset, verify_only=options.verify_index_only)
        _print(dump.lines(data, index, log))
    where = path.absolute()
    report.add(f"Found timestamp mismatch in :{where}", dump.mismatches, "  Index timestamp: {}, log timestamp: {}")
    report.add(f"Found out of order timestamp in :{where}", dump.out_of_order, "  Index timestamp: {}, Previously indexed timestamp: {}")
    report.add("The following indexed offsets are not found in the log.", dump.not_found, "Indexed offset: {}, found log offset: {}")


def _base_offset(path: Path) -> int:
    try:
        segments.heading(path.name)
        return int(path.name.split(".")[0].split("-")[0]) if path.name != segments.BOOTSTRAP else 0
    except ValueError:
        raise Failure(f"{path} is not named after an offset", "A segment's files are named like 00000000000000000000.log") from None


@contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    """The file's bytes, where they lie."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            yield memoryview(b"")
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            view = memoryview(mapped)
            try:
                yield view
            finally:
                # Views of this view may live on in a traceback.  The mapping then ends with them, not here.
                try:
                    view.release()
                except BufferError:
                    return


def _print(lines: Iterable[str]) -> None:
    write = sys.stdout.write
    for line in lines:
        write(line + "\n")
