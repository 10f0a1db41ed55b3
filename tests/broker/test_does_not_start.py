"""The page "My broker does not start": a real broker prints what its table says, on each kind of damage."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.account import damaging
from tests.broker.instance import Broker, BrokerError
from tests.broker.settings import BrokerSettings

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "broker-does-not-start.md"
SETTINGS = BrokerSettings(journal_file_size="10M", message_expiry_scan_period_ms=-1)
STARTS = {"AMQ222043", "AMQ142015", "AMQ222033"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("bindings_gone", "AMQ222043"),
        ("bindings_record", "AMQ224000"),
        ("journal_header", "AMQ149002"),
        ("garbage_in_journal", "AMQ142015"),
        ("page_record", "AMQ222033"),
    ],
)
def test_what_a_broker_prints(
    name: str, code: str, store_copy: Callable[[str], Path], artemis_home: Path, tmp_path: Path
) -> None:
    store = "transactions" if code == "AMQ142015" else "large-and-paged"
    assert artemis_home.exists()
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{code}")]
    words = re.sub(r"\d+", "#", row.split("`")[1])
    shutil.copytree(store_copy(store) / "data", tmp_path / "data")
    getattr(damaging, name)(tmp_path / "data")
    broker = Broker(tmp_path, settings=SETTINGS)
    started = True
    try:
        broker.start()
    except BrokerError:
        started = False
    finally:
        broker.kill()
    assert words in re.sub(r"\d+", "#", broker.log)
    assert started == (code in STARTS)
