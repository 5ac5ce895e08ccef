from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core import families as families_module
from proxy.core.families import NAME_CHARACTERS, SUFFIXES, Families
from tests.proxy.core.relabel_rows import Written
from tests.proxy.core.routing import DROP_ALL, tenancy_of
from tests.proxy.core.scene import Scene, Series, card, interval, owner, rules, tenants, util

UTIL = "DCGM_FI_DEV_GPU_UTIL"


def of(found: Families, tenant: str, *asked: str) -> list[str]:
    """Which of these families a tenant has."""
    return [family for family in asked if found.has(tenant, family)]


@pytest.mark.parametrize(
    ("name", "families"),
    [
        ("up", {"up"}),
        ("x_bucket", {"x_bucket", "x"}),
        ("x_sum", {"x_sum", "x"}),
        ("x_count", {"x_count", "x"}),
        ("x_total", {"x_total", "x"}),
        ("x_created", {"x_created", "x"}),
        ("target_info", {"target_info", "target"}),
        ("x_total_created", {"x_total_created", "x_total"}),
        ("x_seconds", {"x_seconds"}),
        ("xtotal", {"xtotal"}),
        ("x_TOTAL", {"x_TOTAL"}),
        ("x_total_", {"x_total_"}),
        ("_total", {"_total"}),
        ("total", {"total"}),
        ("größe_total", {"größe_total", "größe"}),
    ],
)
def test_families_of_a_name(name: str, families: set[str]) -> None:
    """A series is of the family of its name, and of that without one of the suffixes; no tenant has another's."""
    found = Families()
    found.learn("a", name)
    asked = {name, name[:-1], "", "x", "x_total", "x_seconds", *families}
    assert {family for family in asked if found.has("a", family)} == families
    assert found.count == len(families)
    assert not any(found.has("b", family) for family in asked)


@pytest.mark.parametrize("names", [*permutations(["x", "x_total", "x_total_created"])])
def test_a_family_that_is_also_a_series(names: tuple[str, ...]) -> None:
    """In whichever order they come, what was known as a family before has the family of its own name too."""
    found = Families()
    for name in names:
        found.learn("a", name)
    assert of(found, "a", "x", "x_total", "x_total_created") == ["x", "x_total", "x_total_created"]


def test_among() -> None:
    """Asked by families, it tells who has which of them, and says nothing of who has none."""
    found = Families()
    for tenant, name in (("a", "x_sum"), ("b", "x"), ("b", "y"), ("c", "z")):
        found.learn(tenant, name)
    assert list(found.among({"y": 1, "x": 2, "w": 3}.keys())) == [("a", {"x"}), ("b", {"x", "y"})]


def test_news() -> None:
    """What is learnt is told once, a family that was known already not at all, and of too much the oldest is lost."""
    found = Families()
    for name in ("x_sum", "x_sum", "x_count", "x"):
        found.learn("a", name)
    assert found.news() == [("a", "x_sum"), ("a", "x"), ("a", "x_count")]
    assert found.news() == []
    for number in range(families_module.NEWS + 1):
        found.learn(f"t{number % 100}", f"m{number}")
    assert len(found.news()) == families_module.NEWS


@pytest.mark.parametrize(("length", "learnt"), [(NAME_CHARACTERS, True), (NAME_CHARACTERS + 1, False)])
def test_long_names(length: int, learnt: bool) -> None:  # noqa: FBT001 - a table's column
    """A name beyond NAME_CHARACTERS is not learnt, with its family."""
    found = Families()
    name = "n" * (length - 6) + "_total"
    found.learn("a", name)
    assert (found.has("a", name), found.has("a", name[:-6]), found.count) == (learnt, learnt, 2 * learnt)


def test_bound_of_a_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant has as many as may be; with one more its oldest eighth goes, and may be learnt again."""
    monkeypatch.setattr(families_module, "TENANT_FAMILIES", 80)
    found = Families()
    found.learn("b", "other")
    names = [f"m{number}" for number in range(80)]
    for name in names:
        found.learn("a", name)
    assert (of(found, "a", *names), found.count) == (names, 81)
    found.learn("a", "one_more")
    assert (of(found, "a", *names, "one_more"), found.count) == ([*names[11:], "one_more"], 71)
    assert of(found, "b", "other") == ["other"]
    found.news()
    found.learn("a", names[0])
    assert (found.has("a", names[0]), found.news()) == (True, [("a", names[0])])


def test_bound_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all together have too many it costs the tenant that has most, whoever learns."""
    monkeypatch.setattr(families_module, "ALL_FAMILIES", 100)
    found = Families()
    greedy = [f"m{number}" for number in range(90)]
    for tenant, names in (("small", ["first"]), ("greedy", greedy), ("other", [f"o{number}" for number in range(9)])):
        for name in names:
            found.learn(tenant, name)
    assert found.count == 100
    found.learn("other", "last")
    assert (found.count, of(found, "greedy", *greedy)) == (89, greedy[12:])
    assert (of(found, "small", "first"), of(found, "other", "o0", "last")) == (["first"], ["o0", "last"])


def test_who_is_gone_is_forgotten() -> None:
    """A tenant that is none any more has nothing, its news come to nothing, and others have theirs."""
    found = Families()
    for tenant in ("a", "b"):
        found.learn(tenant, "x_total")
    found.keep(lambda tenant: tenant == "b")
    assert (found.has("a", "x"), found.has("b", "x"), found.count) == (False, True, 2)
    assert [found.has(*news) for news in found.news()] == [False, False, True, True]


NAMES = st.sampled_from([stem + suffix for stem in "xyz" for suffix in ("", *(f"_{one}" for one in SUFFIXES), "_z")])


@pytest.mark.fuzz
@given(
    st.lists(st.tuples(st.sampled_from("abc"), NAMES) | st.sampled_from("abc")),
    st.sampled_from([3, 9, 1000]),
    st.sampled_from([2, 12, 1000]),
)
def test_bounds_hold_and_nothing_is_made_up(steps: list[tuple[str, str] | str], each: int, together: int) -> None:
    """Whatever is learnt: bounds hold, nobody has what it had no series of, and no name is without its family."""
    found = Families()
    had: dict[str, set[str]] = {tenant: set() for tenant in "abc"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(families_module, "TENANT_FAMILIES", each)
        patch.setattr(families_module, "ALL_FAMILIES", together)
        for step in steps:
            if isinstance(step, str):
                found.keep(lambda tenant, gone=step: tenant != gone)  # type: ignore[misc]
                had[step] = set()
                continue
            tenant, name = step
            found.learn(tenant, name)
            stem, _, suffix = name.rpartition("_")
            had[tenant] |= {name, stem} if suffix in SUFFIXES else {name}
            known = {tenant: set(names) for tenant, names in found._known.items()}
            assert all(known[tenant] <= had[tenant] for tenant in known)
            assert max(map(len, known.values())) <= each
            assert found.count == sum(map(len, known.values())) <= together
            seen = [(tenant, name) for tenant, names in found._known.items() for name, seen in names.items() if seen]
            for owner_, name_ in seen:
                stem, _, suffix = name_.rpartition("_")
                assert suffix not in SUFFIXES or stem in known[owner_]
            if min(each, together) == 1000:
                assert known[tenant] == had[tenant]


# -- learnt where decisions are made ----------------------------------------------------------------------------------

HISTORY = card(interval(0, 20, owner("ml")), interval(20, None, owner("nlp")))


def test_decisions_teach_what_tenants_get() -> None:
    """A decision teaches the family to those that get the series, as they get it, and to nobody else."""
    renamed = rules(
        Written(source_labels=("__name__",), regex="DCGM_FI_(.*)", target_label="__name__", replacement="$1")
    )
    many = rules(*(Written(target_label=f"l{at}", replacement="x") for at in range(30)))
    made = tenants(
        ("ml", "owned", renamed), ("drops", "raw", DROP_ALL), ("many", "raw", many), ("raw", "raw"), ("nlp", "owned")
    )
    tenancy = tenancy_of()
    scene = Scene(type(tenancy)(made, {"ml": made[0], "nlp": made[4]}), HISTORY)
    for _ in range(2):
        scene.take(Series(util(), (10, 1.0)))
        assert of(scene.intake.families, "ml", UTIL, "DEV_GPU_UTIL") == ["DEV_GPU_UTIL"]
        have = [tenant.id for tenant in made if scene.intake.families.has(tenant.id, UTIL)]
        assert (have, scene.intake.families.count) == (["raw"], 2)
    assert scene.fast() == 0  # for the tenant with too many labels
    scene.take(Series(util(), (25, 1.0)))
    assert scene.intake.families.has("nlp", UTIL)


def test_what_goes_nowhere_teaches_nothing() -> None:
    """Series that are held back, filtered or refused are nobody's, and so are their families."""
    scene = Scene(tenancy_of(drop="nlp"), HISTORY)
    scene.take(
        Series(util(UUID="GPU-none"), (10, 1.0)),
        Series(util(), (25, 1.0)),
        Series({"__name__": "up"}, (10, 1.0)),
        Series({"__name__": "x", "n": "v" * 2049}, (10, 1.0)),
    )
    assert scene.intake.families.count == 0


def test_families_outlive_decisions() -> None:
    """Another configuration voids every decision, and no family of a tenant that stays; one that goes loses all."""
    scene = Scene(tenancy_of("raw", "joined"), HISTORY)
    scene.take(Series(util(), (10, 1.0)))
    scene.take(Series(util(), (11, 1.0)))
    assert scene.fast() == 1
    families = scene.intake.families
    scene.intake.retenant(tenancy_of("raw"), scene.intake._limits)
    assert [families.has(tenant, UTIL) for tenant in ("ml", "raw", "joined")] == [True, True, False]
    scene.intake.retenant(tenancy_of("raw", "joined"), scene.intake._limits)
    assert not families.has("joined", UTIL)
    scene.take(Series(util(), (12, 1.0)))
    assert families.has("joined", UTIL)
