// The theme, light or dark, from JupyterLab or else from the operating system; and the screen's pixel ratio.
import { type ReadonlySignal, signal } from "@preact/signals";
import type { Theme } from "../plan/runtime.ts";

export interface DisposableSignal<T> {
  readonly signal: ReadonlySignal<T>;
  dispose(): void;
}

export function watchTheme(): DisposableSignal<Theme> {
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

/** Watch the device pixels per CSS pixel, which change with the browser's zoom and between screens. */
export function watchPixelRatio(): DisposableSignal<number> {
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

/** The viewer's size on the page, in CSS pixels. */
interface ViewerSizes {
  /** Without the scrollbar. */
  readonly width: number;
  /** Height of the elements above and below the content: toolbar, drawer, status line. */
  readonly chromeHeight: number;
}

export interface ObservedSizes extends DisposableSignal<ViewerSizes> {
  /** Start measuring, once the content exists. */
  observe(content: HTMLElement): void;
}

export function watchSizes(root: HTMLElement): ObservedSizes {
  let content: HTMLElement | null = null;
  // Keep the scrollbar's width: otherwise pictures that fit beside it might need no scrollbar, then need one again, and
  // so on.
  let kept = { of: "", scrollbar: 0 };
  const now = (): ViewerSizes => {
    const width = root.clientWidth;
    const of = `${width} ${root.style.maxHeight}`;
    if (content === null) return { width, chromeHeight: 0 };
    const before = kept.of === of ? kept.scrollbar : 0;
    kept = { of, scrollbar: Math.max(before, content.offsetWidth - content.clientWidth) };
    return {
      width: width - kept.scrollbar,
      chromeHeight: root.offsetHeight - content.offsetHeight,
    };
  };
  const sizes = signal(now());
  const update = (): void => {
    const next = now();
    const { width, chromeHeight } = sizes.peek();
    if (next.width !== width || next.chromeHeight !== chromeHeight) sizes.value = next;
  };
  const observer = new ResizeObserver(update);
  observer.observe(root);
  return {
    signal: sizes,
    observe(element) {
      content = element;
      observer.observe(element);
      update();
    },
    dispose: () => observer.disconnect(),
  };
}
