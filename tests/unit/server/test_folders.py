"""What the folders of a node have to say before it starts."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from moldau.server.folders import StartRefused, check_folders


def a_folder(path: str, cluster_id: str | None) -> Any:
    meta = None if cluster_id is None else SimpleNamespace(node_id=1, cluster_id=cluster_id, directory_id=UUID(int=len(path)))
    return SimpleNamespace(path=path, is_online=True, meta=meta)


def test_a_first_start_is_told_how_to_format() -> None:
    with pytest.raises(StartRefused, match=r"^/one is not formatted: run `moldau storage format -t \$\(.*\) -c FILE --standalone`$"):
        check_folders([a_folder("/one", None)], 1)


def test_a_folder_that_joins_others_is_told_their_cluster() -> None:
    with pytest.raises(
        StartRefused, match="/new is not formatted: run `moldau storage format -t abc -c FILE --standalone --ignore-formatted`"
    ):
        check_folders([a_folder("/one", "abc"), a_folder("/new", None)], 1)
