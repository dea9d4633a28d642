"""Accessibility rules that a page violates, found by axe-core."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

AXE_SCRIPT = Path(__file__).parents[2] / "js" / "node_modules" / "axe-core" / "axe.min.js"

# The test page has no headings or landmarks around the Viewer: rules about whole pages apply to the
# host.
RUN_AXE_SCRIPT = """async (rules) => (await axe.run('.nbglcnn', {
  resultTypes: ['violations'],
  runOnly: rules,
})).violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))
  .map(({ id, nodes }) => [id, nodes.slice(0, 4).map(
    ({ html, failureSummary }) => html.slice(0, 200) + failureSummary)])"""

RULES = {
    "light": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    "dark": ["color-contrast", "link-in-text-block"],  # rules that a theme can violate
}


def accessibility_violations(page: Page, theme: str) -> list[Any]:
    """The violated rules, and the elements that violate them."""
    return list(page.evaluate(RUN_AXE_SCRIPT, RULES[theme]))
