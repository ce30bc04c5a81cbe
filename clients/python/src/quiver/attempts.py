"""How often, and for how long, a call is made."""

from __future__ import annotations

import time

from .errors import CallError, CertificateError, UnavailableError, never_sent

#: Seconds between attempts.
PAUSE = 0.1


class Attempts:
    """How often a call is made."""

    def __init__(self, patience: float, timeout: float | None, repeat: bool) -> None:
        self._began = time.monotonic()
        self._patience, self._timeout, self._repeat = patience, timeout, repeat

    def left(self) -> float | None:
        """Seconds that are left of the timeout."""
        past = time.monotonic() - self._began
        return None if self._timeout is None else max(self._timeout - past, 0.001)

    def pause(self, error: CallError) -> float:
        """Seconds to the next attempt; raises the error where there is none."""
        past = time.monotonic() - self._began + PAUSE
        passes = isinstance(error, UnavailableError) and not isinstance(error, CertificateError)
        over = past > self._patience or (self._timeout is not None and past > self._timeout)
        if over or not passes or not (self._repeat or never_sent(error)):
            raise error from None
        return PAUSE
