"""Who may take away what: each thing has one taker."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from journalfs.change.removing import FEW, Claim, Claims

PLACES = ("here", "there")
IDS = range(4 * FEW)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(PLACES),
            st.lists(st.sampled_from(IDS), unique=True) | st.sets(st.sampled_from(IDS)).map(sorted),
            st.integers(0, 5),
        ),
        max_size=12,
    )
)
def test_nothing_is_given_to_two(steps: list[tuple[str, list[int], int]]) -> None:
    """Few ids or many, ascending or not, and whichever claims are let go of in between."""
    claims = Claims()
    held: list[Claim] = []
    for place, wanted, keep in steps:
        taken = {(one.place, number) for one in held for number in one.ids}
        claim = claims.take(place, array("q", wanted))
        assert list(claim.ids) == [number for number in wanted if (place, number) not in taken]
        held.append(claim)
        while len(held) > keep:
            claims.let_go(held.pop(0))
        now = {(one.place, number) for one in held for number in one.ids}
        assert {(one, number) for one in PLACES for number in IDS if claims.has(one, number)} == now


def test_what_one_took_before_is_not_looked_for_again() -> None:
    claims = Claims()
    first = claims.take("here", array("q", range(100)))
    assert not len(claims.take("here", array("q", range(100))).ids)
    assert len(claims.take("here", array("q", range(200, 300)), ours=[first]).ids) == 100
