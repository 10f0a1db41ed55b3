"""The pictures of the documents are what the screens show."""

from __future__ import annotations

import pytest

pytest.importorskip("textual")

from scripts.documents.top_pictures import TARGET, pictures, texts


@pytest.mark.long
def test_pictures_are_what_is_on_the_screen() -> None:
    for name, picture in pictures().items():
        assert texts((TARGET / name).read_text()) == texts(picture), f"{name}: make the pictures again"
        assert len(texts(picture)) > 20
