"""● `moldau dump-log`: prints what is in a partition's files, and finds out by itself how to read them."""

import argparse
import re
import sys
from pathlib import Path
from typing import Final

from moldau.tools.cli.dump import segments
from moldau.tools.cli.dump.decoders import DECODERS, Decoder, text
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.dump_log import Report, dump_file
from moldau.tools.cli.parser import Parser, positive

SHOWN: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
TEXT_FILES: Final = ("leader-epoch-checkpoint", "partition.metadata", "quorum-state", "meta.properties")
_PARTITION: Final = re.compile(r"(?P<topic>.+)-\d+")


def main(arguments: list[str]) -> int:
    parser = Parser(
        "moldau dump-log",
        "Print what is in segments, indexes, snapshots and checkpoints.  Name files, or a partition's folder for all files in it.",
        examples=[
            "moldau dump-log data/orders-0",
            "moldau dump-log data/orders-0/00000000000000000000.log --batches",
            "moldau dump-log data/__cluster_metadata-0",
        ],
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--batches", action="store_true", help="print only batches, not their records")
    parser.add_argument("--check", action="store_true", help="print only what is wrong; exit code 1 if anything is")
    parser.add_argument("--max-bytes", type=positive, default=segments.NO_LIMIT, metavar="BYTES", help="read at most this of each segment")
    options = parser.parse_args(arguments)
    if options.check:
        return _check([path for given in options.paths for path in _files(given)], options)
    report = Report()
    for given in options.paths:
        for path in _files(given):
            if path.name in TEXT_FILES or path.name.endswith("-offset-checkpoint"):
                print(f"Dumping {path}")
                print(path.read_text(encoding="utf-8", errors="replace"), end="")
            else:
                dump_file(path, _for_kafkas_tool(options), None if options.batches else decoder_of(path), report)
    report.print()
    return 1 if report.lines else 0


def _files(given: Path) -> list[Path]:
    if not given.exists():
        raise Failure(f"there is no file {given}", "Name a segment, an index, a snapshot, or a partition's folder")
    if given.is_file():
        return [given]
    found = [path for path in sorted(given.iterdir()) if path.suffix in SHOWN or path.name in TEXT_FILES]
    if not found:
        raise Failure(f"there are no segments in {given}", "Name a partition's folder, like data/orders-0")
    return found


def decoder_of(path: Path) -> Decoder:
    """The decoder for the folder that the file lies in."""
    partition = _PARTITION.fullmatch(path.absolute().parent.name)
    if path.name == segments.BOOTSTRAP:
        return DECODERS["__cluster_metadata"]
    return DECODERS.get(partition["topic"], text) if partition else text


def _for_kafkas_tool(options: argparse.Namespace) -> argparse.Namespace:
    return argparse.Namespace(
        deep_iteration=not options.batches,
        skip_record_metadata=False,
        index_sanity_check=False,
        verify_index_only=options.check,
        max_bytes=options.max_bytes,
    )


def _check(paths: list[Path], options: argparse.Namespace) -> int:
    """Read everything and print what is wrong."""
    from contextlib import redirect_stdout
    from io import StringIO

    report, checked = Report(), 0
    for path in paths:
        if path.suffix not in SHOWN:
            continue
        said = StringIO()
        with redirect_stdout(said):
            dump_file(path, _for_kafkas_tool(options), None, report)
        checked += 1
        bad = [
            line
            for line in said.getvalue().splitlines()
            if line.endswith("isvalid: false") or "invalid bytes" in line or line.startswith("Broken")
        ]
        report.lines += [f"{path}: {line}" for line in bad]
    report.print()
    if report.lines:
        return 1
    print(f"{checked} files are as they should be.", file=sys.stdout)
    return 0
