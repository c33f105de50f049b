"""Who is let in to a private dashboard: a browser that has shown a token once has a cookie.

The cookie holds a role, when it ends, and a mark over both under a secret of the collectors that
share a store; never a token. The mark also covers the hash of the role's token: with a new token
all cookies of the old one are worth nothing.
"""

import hmac
import time
from collections.abc import Callable
from typing import Literal, get_args

Role = Literal["operator", "viewer"]
ROLES: tuple[Role, ...] = get_args(Role)
PURPOSE = b"sudare collector: session"
COOKIE = "sudare_session"
SECONDS = 12 * 3600


class Sessions:
    """Makes and knows cookies."""

    def __init__(
        self,
        key: bytes,
        kept: Callable[[Role], bytes | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._key, self._kept, self._clock = key, kept, clock

    def cookie(self, role: Role, *, secure: bool) -> str:
        """A Set-Cookie header's value. Without a path it goes to this survey's addresses only."""
        ends = int(self._clock()) + SECONDS
        mark = self._mark(role, ends)
        assert mark is not None
        more = "; Secure" if secure else ""
        return f"{COOKIE}={role}.{ends}.{mark}; HttpOnly; SameSite=Strict; Max-Age={SECONDS}{more}"

    def knows(self, header: str) -> bool:
        """Whether a Cookie header holds one that is good."""
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE and self._good(value):
                return True
        return False

    def _good(self, value: str) -> bool:
        said, _, rest = value.partition(".")
        text, _, mark = rest.partition(".")
        if not (text.isascii() and text.isdigit() and len(text) <= 12 and mark.isascii()):
            return False
        ends = int(text)
        for role in ROLES:
            true = self._mark(role, ends) if said == role else None
            if true is not None and hmac.compare_digest(true, mark):
                return ends > self._clock()
        return False

    def _mark(self, role: Role, ends: int) -> str | None:
        kept = self._kept(role)
        if kept is None:
            return None
        return hmac.digest(self._key, b"%s %d " % (role.encode(), ends) + kept, "sha256").hex()


def clearing() -> str:
    """A Set-Cookie header's value that takes the cookie away."""
    return f"{COOKIE}=; HttpOnly; SameSite=Strict; Max-Age=0"
