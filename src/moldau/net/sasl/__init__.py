"""◇ SASL on the client's side: the credentials, and the machines that prove them step by step.

    exchange = Scram("alice", "secret").exchange(nonce="…")     # one for each connection
    first = exchange.respond(b"")                               # the first bytes to send
    …  = exchange.respond(challenge)                            # for every answer of the broker, until `exchange.is_done`

`moldau.net.authentication` carries the steps over a channel; a blocking client can do the same in a few lines.  One file a mechanism:
`plain`, `scram`, `oauthbearer`.

Source: RFC 4422, KIP-43, KIP-84, KIP-255.
"""

from moldau.net.sasl.exchange import AuthenticationFailed, Credentials, Exchange
from moldau.net.sasl.oauthbearer import OAuthBearer
from moldau.net.sasl.plain import Plain
from moldau.net.sasl.scram import Scram

__all__ = ["AuthenticationFailed", "Credentials", "Exchange", "OAuthBearer", "Plain", "Scram"]
