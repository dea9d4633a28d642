"""What an exported page holds."""

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any


def held_by(path: Path) -> tuple[dict[str, Any], list[bytes]]:
    """What the page shows first, and its blobs: the Plan file, inputs, then the others."""
    text = path.read_text("utf-8")
    found = re.search(r'id="nbglcnn-page"[^>]*>(.*?)</script>', text, re.DOTALL)
    assert found is not None
    blobs = re.findall(r'<script[^>]* data-nbglcnn(="deflate")?>([^<]*)</script>', text)
    return json.loads(found[1]), [
        zlib.decompress(data) if how else data
        for how, data in ((how, base64.b64decode(letters)) for how, letters in blobs)
    ]
