"""The Explain view's content for one number, read in the page."""

from typing import Any

import pytest
from playwright.sync_api import Page

# All content shown for one pixel. The value of a <data> has all digits; its text is rounded.
READ_EXPLANATION_SCRIPT = """async ([layer, channel, y, x]) => {
  const { state } = views;
  const [, channels, height, width] = state.plan.value.values.find((one) => one.key === layer).nchw;
  state.selected.value = { layer, channel };
  state.pixel.value = { mapHeight: height, mapWidth: width, y, x };
  const root = document.querySelector('.nbglcnn');
  const question = () => root.querySelector('.nbg-question')?.innerText ?? '';
  const pixel = height > 1 ? `, pixel y ${y}, x ${x} =` : `, x ${x} =`;
  const place = height * width > 1 ? pixel : channels > 1 ? `, value ${channel} =` : ' =';
  const channelled = height * width > 1 && channels > 1 ? `, channel ${channel}` : '';
  const wanted = `Why is ${layer}${channelled}${place}`;
  // Attention is asked for by head, query and key.
  const attended = `Why is ${layer}${channelled.replace('channel', 'head')}, query token ${y}`;
  const last = new RegExp(`(key token|feature) ${x}( \\\\(.*\\\\))? =`);
  const asked = () => question().startsWith(wanted)
    || (question().startsWith(attended) && last.test(question()));
  for (let k = 0; k < 1500 && !asked(); k++) {
    await new Promise((done) => setTimeout(done, k < 20 ? 0 : 20));
  }
  if (!asked()) throw new Error(`${wanted} is not in ${root.innerText}`);
  const steps = root.querySelector('[aria-label^="Step by step"]');
  const numbers = (from) => [...(from?.querySelectorAll('data') ?? [])].map(
    (one) => [Number(one.value), one.innerText]);
  const matrix = (name) => numbers(root.querySelector(`table[aria-label="${name}"]`));
  return {
    question: question(),
    value: numbers(root.querySelector('.nbg-question'))[0],
    patch: matrix('Patch of the input'),
    filter: matrix('Filter'),
    products: matrix('Products'),
    window: matrix('Window of the input'),
    ringed: [...root.querySelectorAll('.nbg-matrix[aria-label^="Window"] .nbg-ring data')]
      .map((one) => Number(one.value)),
    terms: Object.fromEntries([...root.querySelectorAll('[data-term]')].map(
      (one) => [one.dataset.term, Number(one.dataset.value)])),
    chosen: Number([...root.querySelectorAll('label')].find(
      (one) => one.innerText.startsWith('Shown for'))?.querySelector('input').value ?? 0),
    cards: [...steps.children].map((card) => ({
      title: card.querySelector('strong').innerText,
      lines: numbers(card.querySelector('.nbg-lines')),
      result: numbers(card.querySelector('.nbg-result'))[0],
    })),
    rounding: root.querySelector('.nbg-rounding').innerText,
  };
}"""


def approx_float32(value: float) -> Any:
    """Equal up to float32 rounding."""
    return pytest.approx(value, rel=1e-5, abs=1e-5)


def approx_float64(value: float) -> Any:
    """Equal up to the order of float64 additions."""
    return pytest.approx(value, rel=1e-9, abs=1e-12)


def read_explanation(page: Page, layer: str, position: list[int]) -> dict[str, Any]:
    return dict(page.evaluate(READ_EXPLANATION_SCRIPT, [layer, *position]))
