"""The contents of an exported page."""

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

# Reads a value in a page; returns its float32 bytes in base64.
READ_VALUE_SCRIPT = """async (key) => {
  const data = await (await window.nbglcnn).read(key);
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  let text = '';
  for (let k = 0; k < bytes.length; k += 32768)
    text += String.fromCharCode(...bytes.subarray(k, k + 32768));
  return btoa(text);
}"""
RUN_INPUT_SCRIPT = """async (text) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const y = await (await window.nbglcnn).run(new Float32Array(bytes.buffer));
  return [...y.slice(0, 5)];
}"""


def read_export(path: Path) -> tuple[dict[str, Any], list[bytes]]:
    """The page's initial state, and its blobs: the Plan file, inputs, then the others."""
    text = path.read_text("utf-8")
    found = re.search(r'id="nbglcnn-page"[^>]*>(.*?)</script>', text, re.DOTALL)
    assert found is not None
    blobs = re.findall(r'<script[^>]* data-nbglcnn(="deflate")?>([^<]*)</script>', text)
    return json.loads(found[1]), [
        zlib.decompress(data) if how else data
        for how, data in ((how, base64.b64decode(letters)) for how, letters in blobs)
    ]
