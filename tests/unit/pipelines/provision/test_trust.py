import hashlib
from pathlib import Path

import pytest

from moldau.pipelines.provision import trust

ONE_AUTHORITY = """\
Some name
-----BEGIN CERTIFICATE-----
AQIDBA==
-----END CERTIFICATE-----
"""


def test_the_machine_s_bundle_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bundle.crt").write_text(ONE_AUTHORITY * 2, encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "bundle.crt"))
    assert trust.machine_authorities() == [b"\1\2\3\4"] * 2


def test_a_store_lists_each_certificate_and_is_sealed() -> None:
    store = trust.key_store([b"first", b"second"])
    assert store.startswith(bytes.fromhex("feedfeed 00000002 00000002 00000002 000b") + b"authority-0")
    assert b"\0\0\0\5first" in store and b"\0\0\0\6second" in store
    assert store[-20:] == hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store[:-20]).digest()
