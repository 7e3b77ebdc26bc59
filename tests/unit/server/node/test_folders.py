"""The folders of a node are checked before it starts."""

from uuid import UUID

import pytest

from moldau.server.node.folders import StartRefused, check_folders
from moldau.storage.folders.checkpoints import MetaProperties


def of(cluster_id: str) -> MetaProperties:
    return MetaProperties(cluster_id, 1, UUID(int=1 << 100))


def test_a_first_start_is_told_how_to_format() -> None:
    with pytest.raises(
        StartRefused,
        match=r"^/one is not formatted: run `moldau storage format -t \$\(.*\) -c FILE --standalone`.*--no-initial-contr",
    ):
        check_folders({"/one": None}, 1)


def test_a_folder_that_joins_others_is_told_their_cluster() -> None:
    with pytest.raises(
        StartRefused, match="/new is not formatted: run `moldau storage format -t abc -c FILE --standalone --ignore-formatted`"
    ):
        check_folders({"/one": of("abc"), "/new": None}, 1)
