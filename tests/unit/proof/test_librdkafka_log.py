"""What a producer of librdkafka waited for is read from its debug log."""

import logging

from proof.cluster.librdkafka_log import Waits, calls

LOG = """\
%7|100.000|TXNAPI|p-1| [thrd:app]: Transactional API called: send_offsets_to_transaction (in txn state InTransaction)
%7|100.010|SEND|p-1| [thrd:TxnCoordinator]: TxnCoordinator/2: Sent AddOffsetsToTxnRequest (v0, 47 bytes @ 0, CorrId 4)
%7|100.020|RECV|p-1| [thrd:TxnCoordinator]: TxnCoordinator/2: Received AddOffsetsToTxnResponse (v0, 6 bytes, CorrId 4, rtt 1ms)
%7|100.030|SEND|p-1| [thrd:h:1/1]: h:1/1: Sent FindCoordinatorRequest (v2, 30 bytes @ 0, CorrId 8)
%7|100.040|SEND|p-2| [thrd:h:1/1]: h:1/1: Sent MetadataRequest (v9, 30 bytes @ 0, CorrId 9)
%7|100.050|TERMINATE|p-1| [thrd:h:1/2]: h:1/2: Handle is terminating in state TRY_CONNECT: 3 refcnts
%7|100.060|TERMINATE|p-1| [thrd:h:1/2]: h:1/2: Handle is terminating in state TRY_CONNECT: 3 refcnts
no line of librdkafka's
%7|130.500|TXNAPI|p-1| [thrd:app]: Transactional API send_offsets_to_transaction return at rd_kafka_send:2041: Success
%7|131.000|TXNAPI|p-1| [thrd:app]: Transactional API called: commit_transaction (in txn state InTransaction)
"""


def test_a_long_call_names_its_answered_and_unanswered_requests() -> None:
    sent, committed = calls(LOG.splitlines())
    assert (sent.name, round(sent.took_s, 1), sent.end) == ("send_offsets_to_transaction", 30.5, "Success")
    assert dict(sent.answered) == {"AddOffsetsToTxn": 1}
    assert list(sent.unanswered.values()) == ["FindCoordinator"]
    assert sent.others.most_common(1) == [("TERMINATE h", 2)]
    assert committed.end == "it never returned"


def test_a_client_that_hangs_names_the_requests_that_no_connection_has_answered() -> None:
    waits, logger = Waits(), logging.Logger("reader")
    logger.addHandler(waits)
    for line in (
        "SEND [c-1] [thrd:h:1/1]: h:1/1: Sent FetchRequest (v11, 78 bytes @ 0, CorrId 20)",
        "SEND [c-1] [thrd:GroupCoordinator]: GroupCoordinator/3: Sent OffsetCommitRequest (v7, 78 bytes @ 0, CorrId 20)",
        "SEND [c-1] [thrd:GroupCoordinator]: GroupCoordinator/3: Sent LeaveGroupRequest (v1, 78 bytes @ 0, CorrId 21)",
        "RECV [c-1] [thrd:GroupCoordinator]: GroupCoordinator/3: Received LeaveGroupResponse (v1, 6 bytes, CorrId 21, rtt 1ms)",
        "FAIL [c-1] [thrd:h:1/1]: h:1/1: Disconnected: connection closed by peer: receive 0 after POLLIN (_TRANSPORT)",
    ):
        logger.debug("%s", line)
    assert list(waits.unanswered.values()) == ["OffsetCommit"]
    said = str(waits).splitlines()
    assert said[0] == "without an answer: OffsetCommit of GroupCoordinator/3; the last lines of librdkafka's log:"
    assert len(said) == 6 and "FAIL" in said[-1]
