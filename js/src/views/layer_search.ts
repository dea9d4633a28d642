// The field that finds layers by name, and where the focus goes from it.

export const isSearchField = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.matches(".nbg-finder");

/** What has the focus, also where the viewer stands in a shadow tree. */
export const focusedElement = (root: HTMLElement): Element | null =>
  (root.getRootNode() as Document | ShadowRoot).activeElement;

/** From the field that finds layers to the layer that is selected, once the view shows it. */
export function leaveSearch(root: HTMLElement): void {
  const field = root.querySelector<HTMLInputElement>(".nbg-finder");
  if (field !== null) field.value = "";
  root.focus({ preventScroll: true });
  requestAnimationFrame(() => {
    if (focusedElement(root) !== root) return; // somebody went on
    root.querySelector<HTMLElement>(".nbg-picture[tabindex='0'], .nbg-row.nbg-chosen")?.focus();
  });
}
