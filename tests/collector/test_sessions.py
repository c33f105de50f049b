"""Cookies of a private dashboard: who is let in, for how long, and who is not."""

from sudare.collector._sessions import COOKIE, SECONDS, Role, Sessions, clearing

KEY = bytes(range(32))


class Door:
    """Sessions with a clock and tokens of the test's own."""

    def __init__(self, key: bytes = KEY) -> None:
        self.now = 1_767_225_600.5
        self.kept: dict[Role, bytes | None] = {"viewer": b"hash-1", "operator": b"hash-2"}
        self.sessions = Sessions(key, lambda role: self.kept[role], lambda: self.now)

    def given(self, role: Role = "viewer") -> str:
        return self.sessions.cookie(role, secure=False).partition(";")[0]


def test_a_cookie_lets_in_for_a_while() -> None:
    door = Door()
    for role in ("viewer", "operator"):
        assert door.sessions.knows(f"a=b; {door.given(role)}; c")
    cookie = door.given()
    assert Door().sessions.knows(cookie), "collectors that share a key know each other's"
    door.now += SECONDS - 1
    assert door.sessions.knows(cookie)
    door.now += 1
    assert not door.sessions.knows(cookie)


def test_a_new_token_ends_it() -> None:
    door = Door()
    viewer, operator = door.given("viewer"), door.given("operator")
    door.kept["viewer"] = b"hash-3"
    assert not door.sessions.knows(viewer)
    assert door.sessions.knows(operator)
    door.kept["operator"] = None
    assert not door.sessions.knows(operator)


def test_nothing_else_lets_in() -> None:
    door = Door()
    cookie = door.given()
    role, ends, mark = cookie.partition("=")[2].split(".")
    for wrong in (
        f"operator.{ends}.{mark}", f"{role}.{int(ends) + 1}.{mark}", f"{role}.{ends}.{mark[:-1]}",
        f"{role}.{ends}.", f"{role}.{ends}", "", "..", f"{role}.+{ends}.{mark}", f"x.{ends}.{mark}",
        f"{role}.{ends}.\xff", f"{role}.{'9' * 5000}.{mark}",
    ):  # fmt: skip
        assert not door.sessions.knows(f"{COOKIE}={wrong}")
    assert not door.sessions.knows(cookie.replace(COOKIE, "other"))
    assert not Door(bytes(32)).sessions.knows(cookie)


def test_what_browsers_are_told() -> None:
    made = Door().sessions.cookie("viewer", secure=False)
    assert all(f"; {word}" in made for word in ("HttpOnly", "SameSite=Strict"))
    assert "Secure" not in made
    assert Door().sessions.cookie("viewer", secure=True).endswith("; Secure")
    assert "Max-Age=0" in clearing()
