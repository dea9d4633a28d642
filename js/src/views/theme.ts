// Light or dark, as JupyterLab says it, else as the reader's system does; and the screen's pixel ratio.
import { type ReadonlySignal, signal } from "@preact/signals";
import type { Theme } from "../gl/types.ts";

export interface Watched<T> {
  readonly signal: ReadonlySignal<T>;
  dispose(): void;
}

export function watchTheme(): Watched<Theme> {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const now = (): Theme => {
    const jupyter = document.body.dataset.jpThemeLight;
    if (jupyter !== undefined) return jupyter === "false" ? "dark" : "light";
    return query.matches ? "dark" : "light";
  };
  const theme = signal(now());
  const update = (): void => {
    theme.value = now();
  };
  const observer = new MutationObserver(update);
  observer.observe(document.body, { attributeFilter: ["data-jp-theme-light"] });
  query.addEventListener("change", update);
  return {
    signal: theme,
    dispose() {
      observer.disconnect();
      query.removeEventListener("change", update);
    },
  };
}

/** Device pixels per CSS pixel; changes with the browser's zoom and between screens. */
export function watchRatio(): Watched<number> {
  const ratio = signal(window.devicePixelRatio);
  let query = matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
  const update = (): void => {
    query.removeEventListener("change", update);
    ratio.value = window.devicePixelRatio;
    query = matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
    query.addEventListener("change", update);
  };
  query.addEventListener("change", update);
  return { signal: ratio, dispose: () => query.removeEventListener("change", update) };
}

export function watchWidth(element: HTMLElement): Watched<number> {
  const width = signal(Math.floor(element.clientWidth));
  const observer = new ResizeObserver((entries) => {
    for (const entry of entries) width.value = Math.floor(entry.contentRect.width);
  });
  observer.observe(element);
  return { signal: width, dispose: () => observer.disconnect() };
}
