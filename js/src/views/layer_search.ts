// The search field for layers, and the focus when it closes.

export const isSearchField = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.matches(".nbg-finder");

/** The focused element, also if the viewer is in a shadow tree. */
export const focusedElement = (root: HTMLElement): Element | null =>
  (root.getRootNode() as Document | ShadowRoot).activeElement;

/** Clear the search field and move the focus to the selected layer, once the view shows it. */
export function leaveSearch(root: HTMLElement): void {
  const field = root.querySelector<HTMLInputElement>(".nbg-finder");
  if (field !== null) field.value = "";
  root.focus({ preventScroll: true });
  requestAnimationFrame(() => {
    if (focusedElement(root) !== root) return; // the focus has moved on
    root.querySelector<HTMLElement>(".nbg-picture[tabindex='0'], .nbg-row.nbg-chosen")?.focus();
  });
}
