"""● A connection to the mail server, in a thread: one letter after the other, each noted as soon as the server has taken it."""

import logging
import smtplib
from collections.abc import Iterable
from threading import Event
from typing import Final

from moldau.shop.mails.journal import Journal
from moldau.shop.mails.letters import Letter

LOG: Final = logging.getLogger(__name__)
WITHIN_S: Final = 20.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 30.0
SENT: Final = "SENT"
PERMANENT: Final = 500


class Postman:
    def __init__(self, server: str, sender: str, journal: Journal) -> None:
        host, _, port = server.rpartition(":")
        self._host, self._port = host or server, int(port) if host else 25
        self._sender = sender
        self._journal = journal
        self._connection: smtplib.SMTP | None = None
        self.stopping = Event()

    def deliver(self, letters: Iterable[Letter]) -> list[tuple[Letter, str]]:
        """Deliver letters.

        Returns the outcome of each letter; letters that were taken before are left out.  It ends early when it is told to stop.
        """
        outcomes = []
        for letter in letters:
            outcome = self._journal.outcome(letter.message_id) or self._until_answered(letter)
            if outcome is None:
                break
            outcomes.append((letter, outcome))
        return outcomes

    def _until_answered(self, letter: Letter) -> str | None:
        """SENT, or why the server refuses the letter for good.  As long as the server gives no answer, the letter is tried again."""
        pause_s = FIRST_PAUSE_S
        while not self.stopping.is_set():
            try:
                refused = self._send(letter)
            except (smtplib.SMTPException, OSError) as error:
                LOG.warning("letter %s is not sent yet (%s); it is tried again in %.1f s", letter.message_id, error, pause_s)
                self.hang_up()
                self.stopping.wait(pause_s)
                pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
                continue
            outcome = refused or SENT
            self._journal.note(letter.message_id, outcome)
            return outcome
        return None

    def _send(self, letter: Letter) -> str | None:
        if self._connection is None:
            self._connection = smtplib.SMTP(self._host, self._port, timeout=WITHIN_S)
        try:
            self._connection.send_message(letter.message(self._sender), self._sender, [letter.to])
        except smtplib.SMTPRecipientsRefused as error:
            code, said = next(iter(error.recipients.values()))
            if code < PERMANENT:
                raise
            return f"{code} {said.decode('utf-8', 'replace')}"
        except smtplib.SMTPResponseException as error:
            if error.smtp_code < PERMANENT:
                raise
            text = error.smtp_error
            return f"{error.smtp_code} {text if isinstance(text, str) else text.decode('utf-8', 'replace')}"
        return None

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
