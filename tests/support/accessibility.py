"""Rules of accessibility that a page breaks, by axe-core."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

AXE_SCRIPT = Path(__file__).parents[2] / "js" / "node_modules" / "axe-core" / "axe.min.js"

# A page of its own has no headings or landmarks around the Viewer: rules
# about whole pages are the host's.
RUN_AXE = """async (rules) => (await axe.run('.nbglcnn', {
  resultTypes: ['violations'],
  runOnly: rules,
})).violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))
  .map(({ id, nodes }) => [id, nodes.slice(0, 4).map(
    ({ html, failureSummary }) => html.slice(0, 200) + failureSummary)])"""

RULES = {
    "light": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    "dark": ["color-contrast", "link-in-text-block"],  # those that a theme can break
}


def accessibility_violations(page: Page, theme: str) -> list[Any]:
    """Rules that are broken, and where."""
    return list(page.evaluate(RUN_AXE, RULES[theme]))
