import base64
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import UnauthenticatedError
from proxy.core.senders import Sender, Senders, anonymous
from proxy.core.tenancy import Trust

PASSWORD = "pass:w\u00f6rd \u2713"
BEARER = Sender("prom-a", "bearer", b"token-a", Trust())
BASIC = Sender("prom-b", "basic", f"prom:{PASSWORD}".encode(), Trust(namespace_label=True))
ADMIN = Sender("admin", "bearer", "t\u00f6ken".encode(), Trust(), admin=True)
SENDERS = Senders((BEARER, BASIC, ADMIN), anonymous(["labeler"]))


def _basic(credentials: bytes) -> str:
    return base64.b64encode(credentials).decode()


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
@pytest.mark.parametrize("blanks", ["", "  "])
def test_bearer(scheme: str, blanks: str) -> None:
    """A bearer token is known by its sender, with the scheme in any case and blanks around it."""
    assert SENDERS.identify(f"{blanks}{scheme} {blanks}token-a{blanks}") is BEARER


@pytest.mark.parametrize("scheme", ["Basic", "basic", "bAsIc"])
def test_basic(scheme: str) -> None:
    """A user and password are known by their sender, colons and any bytes in the password included."""
    assert SENDERS.identify(f"{scheme} {_basic(BASIC.secret)}") is BASIC


def test_token_beyond_ascii() -> None:
    """A header's bytes come as Latin-1 text: a token in UTF-8 is known again."""
    header = b"Bearer " + ADMIN.secret
    assert SENDERS.identify(header.decode("latin-1")) is ADMIN


WRONG = [
    None,
    "",
    " ",
    "Bearer",
    "Bearer ",
    "Bearer token-b",
    "Bearer token-",
    "Bearer token-ax",
    "Bearer TOKEN-A",
    "Bearer token-a x",
    "token-a",
    "Token token-a",
    "Basic token-a",
    f"Bearer {_basic(BASIC.secret)}",
    f"Bearer {BASIC.secret.decode()}",
    f"Basic {_basic(b'token-a')}",
    f"Basic {_basic(b'prom')}",
    f"Basic {_basic(b'prom:')}",
    f"Basic {_basic(b':' + BASIC.secret)}",
    f"Basic {_basic(BASIC.secret)[:-1]}",
    f"Basic {_basic(BASIC.secret)}!",
    "Basic !!!!",
    "Basic \u00e9\u00e9",
    "Bearer \u00e9\u2713",
    "Bearer \ud800",
    "Basic \ud800",
    "Bearer token-a\x00",
]


@pytest.mark.parametrize("header", WRONG, ids=ascii)
def test_wrong(header: str | None) -> None:
    """Any other credentials are nobody's: 401, in a sentence that repeats none of them."""
    with pytest.raises(UnauthenticatedError) as caught:
        SENDERS.identify(header)
    assert caught.value.status == 401
    assert "token" not in caught.value.sentence


@pytest.mark.parametrize("header", [None, "Bearer anything", "Basic ?"])
def test_anonymous(header: str | None) -> None:
    """Where no sender is configured everybody is the anonymous one, whatever he says."""
    senders = Senders((), anonymous(["labeler", "other"]))
    sender = senders.identify(header)
    assert (sender.name, sender.admin) == ("anonymous", False)
    assert sender.trust == Trust(frozenset({"labeler", "other"}))


@pytest.mark.parametrize("header", ["Bearer token-a", "Bearer nobody", f"Basic {_basic(BASIC.secret)}"])
def test_every_secret_is_compared(header: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every configured secret is compared in constant time, whoever it is and however early it is found."""
    compared: list[bytes] = []
    real = hmac.compare_digest

    def _compare(known: bytes, given: bytes) -> bool:
        compared.append(known)
        return real(known, given)

    monkeypatch.setattr("proxy.core.senders.hmac.compare_digest", _compare)
    try:
        SENDERS.identify(header)
    except UnauthenticatedError:
        assert header == "Bearer nobody"
    assert compared == [BEARER.secret, BASIC.secret, ADMIN.secret]


@pytest.mark.fuzz
@given(
    st.text(max_size=60) | st.sampled_from(["Bearer ", "Basic "]).flatmap(lambda s: st.text(max_size=40).map(s.__add__))
)
def test_only_our_error(header: str) -> None:
    """Whatever text the header holds, it is a sender's or refused with an error of ours."""
    try:
        assert SENDERS.identify(header) in SENDERS.senders
    except UnauthenticatedError as error:
        assert error.status == 401
