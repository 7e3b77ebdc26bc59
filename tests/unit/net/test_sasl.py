"""The client's machines prove who we are to a server that is not ours, and refuse one that cannot prove itself."""

import base64

import pytest
from scramp import ScramMechanism

from moldau.net.sasl import AuthenticationFailed, OAuthBearer, Plain, Scram

NONCE = "fyko+d2lbbFgONRv9qkxdawL"


def test_plain_is_one_message() -> None:
    exchange = Plain("alice", "sécret", authorization_id="admin").exchange(nonce=NONCE)
    assert not exchange.is_done
    assert exchange.respond(b"") == "admin\0alice\0sécret".encode()
    assert exchange.is_done
    with pytest.raises(AuthenticationFailed, match="asks for more"):
        exchange.respond(b"more")


def test_a_nul_cannot_be_smuggled_into_plain() -> None:
    with pytest.raises(ValueError, match="NUL"):
        Plain("alice\0root", "secret")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_with_a_server(mechanism: str) -> None:
    server = ScramMechanism(mechanism)
    auth = server.make_auth_info("secret", iteration_count=4096)
    other_side = server.make_server(lambda user: auth if user == "alice" else None)
    exchange = Scram("alice", "secret", mechanism).exchange(nonce=NONCE)
    other_side.set_client_first(exchange.respond(b"").decode())
    other_side.set_client_final(exchange.respond(other_side.get_server_first().encode()).decode())
    assert not exchange.is_done
    assert exchange.respond(other_side.get_server_final().encode()) == b""
    assert exchange.is_done


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    server = ScramMechanism("SCRAM-SHA-256")
    other_side = server.make_server(lambda _: server.make_auth_info("secret", iteration_count=4096))
    exchange = Scram("alice", "secret", "SCRAM-SHA-256").exchange(nonce=NONCE)
    other_side.set_client_first(exchange.respond(b"").decode())
    exchange.respond(other_side.get_server_first().encode())
    with pytest.raises(AuthenticationFailed):
        exchange.respond(b"v=" + base64.b64encode(bytes(32)))
    assert not exchange.is_done


@pytest.mark.parametrize("iterations", [b"1", b"4095", b"1000001", b"99999999999", b"x"])
def test_iterations_have_bounds(iterations: bytes) -> None:
    exchange = Scram("alice", "secret").exchange(nonce=NONCE)
    exchange.respond(b"")
    with pytest.raises(AuthenticationFailed, match="iterations"):
        exchange.respond(b"r=" + NONCE.encode() + b"abc,s=QSXCR+Q6sek8bf92,i=" + iterations)


@pytest.mark.parametrize("challenge", [b"", b"e=other-error", b"\xff\xfe", b"r=someoneelse,s=QSXCR+Q6sek8bf92,i=4096", b"," * 5000])
def test_nonsense_is_a_failed_authentication(challenge: bytes) -> None:
    exchange = Scram("alice", "secret").exchange(nonce=NONCE)
    exchange.respond(b"")
    with pytest.raises(AuthenticationFailed):
        exchange.respond(challenge)


def test_a_token_asks_for_its_key() -> None:
    """The server signs the first message with its extension, so the exchange only ends well if the client does, too."""
    server = ScramMechanism("SCRAM-SHA-512")
    auth = server.make_auth_info("key", iteration_count=4096)
    other = server.make_server(lambda _: auth)
    exchange = Scram("id", "key", is_token=True).exchange(nonce=NONCE)
    first = exchange.respond(b"")
    assert first == b"n,,n=id,r=" + NONCE.encode() + b",tokenauth=true"
    other.set_client_first(first.decode().removesuffix(",tokenauth=true"))  # scramp's server takes no long names
    other.client_first_bare += ",tokenauth=true"
    other.set_client_final(exchange.respond(other.get_server_first().encode()).decode())
    exchange.respond(other.get_server_final().encode())
    assert exchange.is_done


def test_an_unknown_scram_mechanism() -> None:
    with pytest.raises(ValueError, match="SCRAM-SHA-512"):
        Scram("alice", "secret", "SCRAM-MD5")


def test_a_token_and_its_extensions() -> None:
    exchange = OAuthBearer("a.b.c", {"logicalCluster": "lkc-1"}, authorization_id="a,b=c").exchange(nonce=NONCE)
    assert exchange.respond(b"") == b"n,a=a=2Cb=3Dc,\x01auth=Bearer a.b.c\x01logicalCluster=lkc-1\x01\x01"
    assert exchange.is_done


def test_a_refused_token_says_why() -> None:
    exchange = OAuthBearer("a.b.c").exchange(nonce=NONCE)
    exchange.respond(b"")
    assert exchange.respond(b'{"status":"invalid_token"}') == b"\x01"
    assert not exchange.is_done
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        exchange.respond(b"")


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a b": "x"}, {"a": "x\x01"}, {"a": ""}])
def test_extensions_that_cannot_be_sent(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="extension"):
        OAuthBearer("a.b.c", extensions)


def test_a_token_with_a_separator_is_refused() -> None:
    with pytest.raises(AuthenticationFailed, match="no bearer token"):
        OAuthBearer("a\x01auth=Bearer b").exchange(nonce=NONCE)


@pytest.mark.parametrize("credentials", [Plain("alice", "secret"), Scram("alice", "secret"), OAuthBearer("secret")])
def test_no_secret_is_shown(credentials: object) -> None:
    assert "secret" not in repr(credentials)
