"""Problems and how they read."""

import pytest

from config.problems import ConfigError, Place, Problem, place_text


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem(12, "tenants[0].id", "is wrong", "f.yaml"), "f.yaml:12: tenants[0].id: is wrong"),
        (Problem(None, "", "cannot be read", "f.yaml"), "f.yaml: cannot be read"),
        (Problem(3, "", "is no YAML"), "3: is no YAML"),
        (Problem(None, "a", "is wrong"), "a: is wrong"),
    ],
)
def test_reads_as_compilers_write(problem: Problem, text: str) -> None:
    """File, line, place and sentence, as far as they are known, so that editors can jump there."""
    assert str(problem) == text


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ((), ""),
        (("proxy",), "proxy"),
        (("tenants", 1, "endpoint", "url"), "tenants[1].endpoint.url"),
        ((0, "a"), "[0].a"),
        (("prices", "A 100\n"), "prices['A 100\\n']"),
        (("a", "x" * 200), f"a['{'x' * 40}']"),
        (("a", ""), "a['']"),
    ],
)
def test_places_read_as_people_write_them(place: Place, text: str) -> None:
    """Dots and brackets; keys that would break a line are quoted and cut."""
    assert place_text(place) == text


def test_an_error_has_a_line_for_each_problem() -> None:
    """All problems are there, in the text as well."""
    error = ConfigError(Problem(line, "", "is wrong", "f") for line in (1, 2))
    assert str(error) == "f:1: is wrong\nf:2: is wrong"
    assert len(error.problems) == 2
