import pytest

from ownership.device import DeviceKey, device_key

CARD = "GPU-5b0c"


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        pytest.param({"UUID": CARD}, DeviceKey(CARD, ""), id="card"),
        pytest.param({"UUID": CARD, "GPU_I_ID": "9"}, DeviceKey(CARD, "9"), id="instance"),
        pytest.param({"UUID": CARD, "pod": "p", "gpu": "3"}, DeviceKey(CARD, ""), id="nothing else counts"),
        pytest.param({}, None, id="no UUID"),
        pytest.param({"UUID": ""}, None, id="empty"),
        pytest.param({"UUID": "MIG-5b0c", "GPU_I_ID": "9"}, None, id="the UUID of an instance"),
        pytest.param({"UUID": "gpu-5b0c"}, None, id="case counts"),
        pytest.param({"gpu_uuid": CARD, "uuid": CARD}, None, id="only the label UUID"),
    ],
)
def test_join_key(labels: dict[str, str], key: DeviceKey | None) -> None:
    """A series is about the device that UUID and GPU_I_ID name, and about none without a card's UUID."""
    assert device_key(lambda name: labels.get(name, "")) == key
