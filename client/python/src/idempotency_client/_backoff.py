"""How long to wait before a call is repeated."""

from __future__ import annotations

import random
from typing import Optional

_FIRST = 0.05
_LONGEST_ASKED = 60.0
# From the system's source: processes that were forked do not back off in step.
_random = random.SystemRandom()


class Backoff:
    """Doubles from 50 ms up to `longest`; each wait is drawn from its upper half.

    Guessed: fast enough for a replica that restarts, slow enough for a thousand callers.
    """

    def __init__(self, longest: float = 5.0) -> None:
        self._longest = longest
        self._next = _FIRST

    def next(self, asked: Optional[float]) -> float:
        """The next wait in seconds.

        `asked`: what the server asked for, which counts instead (a minute at most), with up to a
        fifth on top, so that those it told the same do not come back together.
        """
        if asked is not None and asked >= 0:
            wait = min(asked, _LONGEST_ASKED)
            return _random.uniform(wait, wait * 1.2)
        wait = self._next
        self._next = min(self._longest, 2 * wait)
        return _random.uniform(wait / 2, wait)

    def reset(self) -> None:
        """The next wait is the first again."""
        self._next = _FIRST
