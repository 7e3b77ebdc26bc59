"""● Tells a refusal over TLS, which trying again does not change, from a connection that broke.  Called where connections are made."""

import ssl


def tls_refusal(error: OSError) -> str | None:
    """The reason why one side refuses the other over TLS, and the way out.  None: the connection broke, and another one may succeed.

    With TLS 1.3 a broker refuses a client's certificate only after the handshake, in answer to the first request.
    """
    found = error if isinstance(error, ssl.SSLError) else error.__cause__
    if not isinstance(found, ssl.SSLError) or isinstance(found, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
        return None
    reason = found.strerror or str(found)
    if isinstance(found, ssl.SSLCertVerificationError):
        return f"{reason}; name the authority of the broker's certificate with ssl_context or ssl.truststore.location"
    if "ALERT" in (found.reason or ""):
        return f"{reason}; the broker refuses this client's certificate or protocol: see ssl_context or ssl.keystore.location"
    if found.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL"):
        return f"{reason}; the port may speak without TLS: see the listeners of the broker"
    return reason
