import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.casemap import to_lower, to_upper

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        pytest.param("", "", "", id="nothing"),
        pytest.param("GPU-0f", "gpu-0f", "GPU-0F", id="ASCII"),
        pytest.param("Éé", "éé", "ÉÉ", id="an accent"),
        pytest.param("ß", "ß", "ß", id="sharp s stays"),
        pytest.param("ẞ", "ß", "ẞ", id="capital sharp s"),
        pytest.param("ŉ", "ŉ", "ŉ", id="n with an apostrophe stays"),
        pytest.param("İ", "i", "İ", id="dotted I loses its dot"),
        pytest.param("\u0131", "\u0131", "I", id="dotless i"),
        pytest.param("ΔΣ", "δ\u03c3", "ΔΣ", id="no final sigma"),
        pytest.param("ς", "ς", "Σ", id="final sigma"),
        pytest.param("ᾳ", "ᾳ", "ᾼ", id="a title case for upper"),
        pytest.param("ᾼ", "ᾳ", "ᾼ", id="a title case as it is"),
        pytest.param("ǆǅ", "ǆǆ", "ǄǄ", id="a digraph"),
        pytest.param("ﬁ", "ﬁ", "ﬁ", id="a ligature stays"),
        pytest.param("\u212a", "k", "\u212a", id="the Kelvin sign"),
        pytest.param("ა", "ა", "Ა", id="Georgian"),
    ],
)
def test_mapping(text: str, lower: str, upper: str) -> None:
    """The mappings are the simple ones that Go's strings package uses."""
    assert to_lower(text) == lower
    assert to_upper(text) == upper


@given(TEXT)
def test_one_for_one(text: str) -> None:
    """A mapped text has as many characters, and each is mapped by itself."""
    assert to_lower(text) == "".join(map(to_lower, text))
    assert to_upper(text) == "".join(map(to_upper, text))
    assert len(to_lower(text)) == len(to_upper(text)) == len(text)
