from proxy.core.gathering import Moment
from proxy.core.intake import SLICE, SLICE_BYTES
from proxy.core.tenancy import Tenancy, Trust
from tests.proxy.core.scene import T0, Scene, Series, points_of, read_series, tenants


def _large_request(count: int) -> bytes:
    return b"".join(
        Series({"__name__": "m", "n": str(number)}, (number, float(number))).to_bytes() for number in range(count)
    )


def test_large_request_is_taken_in_slices_and_whole() -> None:
    """A request above SLICE entries comes apart in slices, in order, and together they are all of it."""
    count = 2 * SLICE + 1
    scene = Scene(Tenancy(tenants(("all", "raw"))))
    slices = list(scene.intake.take_slices(_large_request(count), Trust(), Moment(T0, 1)))
    assert [taken.received for taken in slices] == [0, SLICE, SLICE, 1]
    sent = [
        point for taken in slices for part in taken.parts for one in read_series(part.body) for point in points_of(one)
    ]
    assert sent == [(number, float(number)) for number in range(count)]


def test_slices_add_up_to_what_take_returns() -> None:
    """`take` is its slices added up: parts in order, counts summed, sentences up to their bound."""
    body = _large_request(SLICE + 2) + Series({"nameless": "x"}, (1, 1.0)).to_bytes()
    one, other = (Scene(Tenancy(tenants(("all", "raw")))) for _ in range(2))
    taken = one.intake.take(body, Trust(), Moment(T0, 1))
    slices = list(other.intake.take_slices(body, Trust(), Moment(T0, 1)))
    assert b"".join(part.body for part in taken.parts) == b"".join(part.body for some in slices for part in some.parts)
    assert taken.received == sum(some.received for some in slices) == SLICE + 3
    assert taken.refused == 1
    assert len(taken.refusals) == 1


def test_slices_are_bounded_in_bytes_too() -> None:
    """A few entries with very many points hold others up no longer than many entries do; none is cut or lost."""
    points = [(number, float(number)) for number in range(20_000)]
    entry = Series({"__name__": "m"}, *points).to_bytes()
    fitting, count = SLICE_BYTES // len(entry), 9
    assert 0 < fitting < count
    scene = Scene(Tenancy(tenants(("all", "raw"))))
    taken = [some.received for some in scene.intake.take_slices(entry * count, Trust(), Moment(T0, 1))]
    assert sum(taken) == len(points) * count
    assert max(taken) <= (fitting + 1) * len(points)


def test_an_entry_beyond_the_bytes_of_a_slice_goes_alone() -> None:
    """An entry larger than a slice neither blocks the rest nor takes it along."""
    small = Series({"__name__": "m"}, (1, 1.0)).to_bytes()
    large = Series({"__name__": "m", "l": "x"}, *((at, 1.0) for at in range(80_000))).to_bytes()
    assert len(large) > SLICE_BYTES
    scene = Scene(Tenancy(tenants(("all", "raw"))))
    taken = [some.received for some in scene.intake.take_slices(small + large + small, Trust(), Moment(T0, 1))]
    assert taken == [0, 1, 80_000, 1]
