"""How explanations look: widths, hostile text, every kind of end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from cli.explain_view import flow, lines
from cli.text import printable
from ownership import Fleet
from proxy.core.explain import Explanation, TenantExplanation, explain
from proxy.core.labels import LabelSet
from proxy.core.tenancy import Tenancy, Tenant, Trust

NAME = st.text(min_size=1, max_size=12)
LABELS = st.dictionaries(NAME, st.text(max_size=12), max_size=6)


def view(explanation: Explanation, width: int = 80) -> str:
    """The lines as text."""
    return "\n".join(line.plain for line in lines(explanation, width))


@given(LABELS, st.sampled_from(["raw", "joined"]), st.integers(40, 200))
def test_no_series_breaks_the_view(labels: dict[str, str], view_name: str, width: int) -> None:
    """Whatever the labels are, the view has them, and nothing in it but printable characters and line ends."""
    series = LabelSet.of({**labels, "__name__": "x y"})
    tenancy = Tenancy((Tenant("t", 0, "raw" if view_name == "raw" else "joined"),))
    text = view(explain(series, 0, Trust(), tenancy, Fleet(1, 1)), width)
    assert all(line.isprintable() for line in text.split("\n"))
    assert "out       {" in text


@given(st.lists(st.text("ab ", min_size=1, max_size=9), max_size=20), st.integers(12, 40))
def test_flow_keeps_tokens_whole_and_in_order(words: list[str], width: int) -> None:
    """Lines break between tokens only, and none is wider than asked."""
    out = flow([Text(word) for word in words], width, "  ")
    assert "".join(line.plain for line in out).replace(" ", "") == "".join(words).replace(" ", "")
    assert all(line.cell_len <= width for line in out)


@given(st.text())
def test_printable_is_printable(text: str) -> None:
    """No text, lone surrogates and escapes included, comes out with a character that is not printable."""
    assert printable(text).isprintable()


ENDS = [
    pytest.param("no_labels", "nothing: its rules leave no label", id="no-labels"),
    pytest.param("no_name", "nothing: its rules leave no metric name", id="no-name"),
    pytest.param("labels_per_series", "nothing: it has more labels than limits.labels_per_series", id="too-many"),
    pytest.param("write_relabel_configs[2]", "nothing: dropped by write_relabel_configs[2]", id="rule"),
]


@pytest.mark.parametrize(("dropped_by", "sentence"), ENDS)
def test_each_end_is_told(dropped_by: str, sentence: str) -> None:
    """A tenant that gets nothing is told why."""
    tenant = TenantExplanation("t", "owner", "x", (), None, dropped_by)
    fate = {"kind": "filtered", "tenant": "t", "detail": dropped_by}
    text = view(Explanation("x", "1970-01-01T00:00:00.000Z", "other", None, None, "", fate, (tenant,)))
    assert f"  out       {sentence}" in text
    assert f"  fate      filtered (t, {dropped_by}): it is sent to nobody" in text


def test_a_word_of_a_newer_proxy_is_shown_as_it_is() -> None:
    """Kinds, claims and fates that this version does not know are shown, not refused."""
    tenant = TenantExplanation("t", "tithe", "x", (), "x", "")
    fate = {"kind": "blessed", "tenant": "", "detail": ""}
    text = view(Explanation("x", "now", "holy", None, None, "", fate, (tenant,)))
    assert "kind      holy" in text
    assert "t tithe" in text
    assert "fate      blessed" in text
