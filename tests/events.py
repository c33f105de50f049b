"""Events to test with: one golden text of each kind, and all that can be made."""

from typing import Any

from hypothesis import strategies as st

from sudare.foundations.privacy import (
    ApproximateEvent,
    ConcentratedEvent,
    GaussianEvent,
    LocalEvent,
    NearGaussianEvent,
    Neighbours,
    PureEvent,
)

# One text of each kind. They must read as they do today for as long as there are releases.
GOLDEN: dict[str, Any] = {
    '{"kind":"pure/1","epsilon":0.1,"neighbours":"replace-one","unit":"row","assumptions":[]}': (
        PureEvent(0.1)
    ),
    '{"kind":"gaussian/1","mu":0.30000000000000004,"neighbours":"add-remove","unit":"patient",'
    '"assumptions":["rows are clipped","ε is public"]}': (
        GaussianEvent(
            0.1 + 0.2,
            neighbours=Neighbours.ADD_REMOVE,
            unit="patient",
            assumptions=("rows are clipped", "ε is public"),
        )
    ),
    '{"kind":"near-gaussian/1","mu":0.5,"log_ratio":1e-8,"failure":1e-22,'
    '"neighbours":"replace-one","unit":"row","assumptions":[]}': (
        NearGaussianEvent(0.5, 1e-8, 1e-22)
    ),
    '{"kind":"concentrated/1","rho":5e-324,"neighbours":"replace-one","unit":"row",'
    '"assumptions":[]}': ConcentratedEvent(5e-324),
    '{"kind":"approximate/1","epsilon":1.0,"delta":1e-6,"neighbours":"replace-one","unit":"row",'
    '"assumptions":[]}': ApproximateEvent(1.0, 1e-6),
    '{"kind":"local/1","epsilon":2.0,"neighbours":"local","unit":"user","assumptions":[]}': (
        LocalEvent(2.0)
    ),
}
ALL = list(GOLDEN.values())


def whole(texts: Any) -> str:
    return "[" + ",".join(texts) + "]"


POSITIVE = st.floats(5e-324, 1.7976931348623157e308)
WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20
)
CIRCUMSTANCES: dict[str, st.SearchStrategy[Any]] = {
    "unit": st.from_regex(r"[^\W\d][\w -]{0,39}", fullmatch=True),
    "assumptions": st.lists(WORDS, max_size=3).map(tuple),
}
CENTRAL: dict[str, st.SearchStrategy[Any]] = {
    **CIRCUMSTANCES,
    "neighbours": st.sampled_from([Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE]),
}
EVENTS = st.one_of(
    st.builds(PureEvent, POSITIVE, **CENTRAL),
    st.builds(GaussianEvent, POSITIVE, **CENTRAL),
    st.builds(
        NearGaussianEvent,
        POSITIVE,
        st.floats(0, 1.7976931348623157e308),
        st.floats(0, 1, exclude_max=True),
        **CENTRAL,
    ),
    st.builds(ConcentratedEvent, POSITIVE, **CENTRAL),
    st.builds(ApproximateEvent, POSITIVE, st.floats(0, 1, exclude_max=True), **CENTRAL),
    st.builds(LocalEvent, POSITIVE, **CIRCUMSTANCES),
)
