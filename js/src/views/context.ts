// Shared context of one viewer's components, and hooks that query the session.
import type { ReadonlySignal, Signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Tensor, Tensors } from "../explain/tensor.ts";
import type { Feature } from "../features/feature.ts";
import type { ClassNameLookup } from "../network/class_names.ts";
import type { Network } from "../network/network.ts";
import type { ClippedCounts, Histogram, Statistics, Theme, TopK } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import type { ViewerState } from "../state.ts";
import type { Painter } from "./painter.ts";
import type { LayerCost } from "./profile/costs.ts";
import { type HistogramQuery, isSkipped, type RunQueries } from "./run_queries.ts";

/** A position in CSS pixels, relative to the viewer's top left corner. */
export interface PointerPosition {
  readonly left: number;
  readonly top: number;
  /** The element under the pointer. */
  readonly element: Element;
}

/** The position under the pointer in a picture. */
export interface Hover extends PointerPosition {
  readonly value: Value;
  readonly channels: readonly number[];
  readonly y: number;
  readonly x: number;
  /** Also show the value's rank within its map. */
  readonly showRank: boolean;
}

/** A tooltip with prepared text. */
export interface TextTooltip extends PointerPosition {
  readonly title: string;
  readonly text: string;
}

export interface Views {
  readonly features: readonly Feature[];
  readonly state: ViewerState;
  readonly network: ReadonlySignal<Network | null>;
  /** Class names of values whose channels are classes. */
  readonly classNames: ReadonlySignal<ClassNameLookup>;
  readonly theme: ReadonlySignal<Theme>;
  /** The viewer's magnification in presentation mode; 1 in a notebook. */
  readonly zoom: ReadonlySignal<number>;
  /** Device pixels per CSS pixel of the viewer. */
  readonly pixelRatio: ReadonlySignal<number>;
  /** The width of the viewer's content in CSS pixels, without its scrollbar. */
  readonly width: ReadonlySignal<number>;
  /** The content's maximum height without scrolling, in CSS pixels; null if it is unlimited. */
  readonly contentHeight: ReadonlySignal<number | null>;
  readonly root: HTMLElement;
  readonly painter: Painter;
  readonly queries: RunQueries;
  /** The pixel under the pointer. */
  readonly hover: Signal<Hover | null>;
  readonly tooltip: Signal<TextTooltip | null>;
  /** The last hovered row of attention weights: the value's key, and the token's row. */
  readonly attentionRow: Signal<{ readonly key: string; readonly row: number } | null>;
  /** The layer under the pointer. */
  readonly hoveredLayer: Signal<string | null>;
  /** The cost of each layer. It does not update with every run, because estimates are shown only as shares. */
  readonly costs: ReadonlySignal<readonly LayerCost[]>;
  /** Whether the list of keyboard shortcuts is open. */
  readonly isHelpOpen: Signal<boolean>;
  /** Channels of the open layer, in display order. */
  readonly channelOrder: Signal<readonly number[]>;
}

export const ViewsContext = createContext<Views | null>(null);

export function useViews(): Views {
  const views = useContext(ViewsContext);
  if (views === null) throw new Error("a view outside of mount()");
  return views;
}

/** False in the first frames of a view. The view can then render the selection first and the rest right after it. */
export function useAfterFirstPaint(): boolean {
  const [later, setLater] = useState(false);
  useEffect(() => {
    let frame = requestAnimationFrame(() => {
      frame = requestAnimationFrame(() => setLater(true));
    });
    return () => cancelAnimationFrame(frame);
  }, []);
  return later;
}

/** The pointer's position in an element, in the viewer's CSS pixels, corrected for the zoom of presentation mode. */
export function pointerOffset(element: Element, event: MouseEvent, { zoom }: Views) {
  const box = element.getBoundingClientRect();
  return {
    left: (event.clientX - box.left) / zoom.value,
    top: (event.clientY - box.top) / zoom.value,
  };
}

/** The pointer's position in a viewer. */
export function pointerPosition(event: PointerEvent, views: Views): PointerPosition {
  return { ...pointerOffset(views.root, event, views), element: event.currentTarget as Element };
}

/** The image index of the displayed example in a value; 0 for a value without batch axis. */
export function imageIndex(value: Value, network: Network, example: number): number {
  return value.nchw[0] === network.batchSize ? Math.min(example, network.batchSize - 1) : 0;
}

interface CachedAnswer<T> {
  readonly key: string;
  readonly queryKey: string;
  readonly answer: T;
}

/**
 * The result of `fetchAnswer` for the current run. Until it arrives, the previous run's result for the same value is
 * returned. `queryKey`: key of the other parameters; `isEnabled`: false while the result is not visible.
 */
export function useQuery<T>(
  value: Value | null,
  fetchAnswer: (views: Views, value: Value, image: number) => Promise<T | null>,
  queryKey = "",
  isEnabled = true,
): T | null {
  const views = useViews();
  const network = views.network.value;
  const session = views.state.session.value;
  const sequence = views.state.run.value?.sequence ?? 0;
  const image = value && network ? imageIndex(value, network, views.state.example.value) : 0;
  const [known, setKnown] = useState<CachedAnswer<T> | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a run's sequence is what makes an answer old
  useEffect(() => {
    if (value === null || session === null || sequence === 0) return;
    let wanted = true;
    const go = (): Promise<void> =>
      fetchAnswer(views, value, image).then(
        (answer) => {
          if (wanted && answer !== null) setKnown({ key: value.key, queryKey, answer });
        },
        (error: unknown) => {
          if (wanted) reportFailure(views, error);
        },
      );
    const { hiddenQueries } = views.painter;
    if (isEnabled) void go();
    else hiddenQueries.add(go);
    return () => {
      wanted = false;
      hiddenQueries.delete(go);
    };
  }, [views, value, session, sequence, image, queryKey, isEnabled]);
  if (value === null || isSkipped(session, value.key)) return null; // the known answer is stale
  return known !== null && known.key === value.key && known.queryKey === queryKey
    ? known.answer
    : null;
}

const queryStatistics = (views: Views, value: Value, image: number) =>
  views.queries.statistics(value.key, image);
const queryValues = (views: Views, value: Value) => views.queries.read(value.key);
const queryTopk = (views: Views, value: Value, image: number) =>
  views.queries.topk(value.key, image, MAX_TOP_VALUES);

/** The most scores that are shown. */
export const MAX_TOP_VALUES = 10;

/** Statistics of the displayed image of a value; null until they arrive. */
export const useStatistics = (value: Value | null): Statistics | null =>
  useQuery(value, queryStatistics);

/** The histogram of the displayed image; null until it arrives. */
export const useHistogram = (value: Value | null, query: HistogramQuery): Histogram | null =>
  useQuery(
    value,
    ({ queries }, { key }, image) => queries.histogram(key, image, query),
    `${query.bins} ${query.channel}`,
  );

/** The number of values of the displayed image that a range clips; null until it arrives. */
export const useClippedCount = (
  value: Value | null,
  low: number,
  high: number,
): ClippedCounts | null =>
  useQuery(
    value,
    ({ queries }, { key }, image) => queries.countClipped(key, image, { low, high }),
    `${low} ${high}`,
  );

/** All elements of a value or parameter; null until they arrive. */
export const useValues = (value: Value | null): Float32Array | null => useQuery(value, queryValues);

/** The largest scores of the displayed image, queried only while visible; null until they arrive. */
export const useTopk = (value: Value | null, isVisible: boolean): TopK | null =>
  useQuery(value, queryTopk, "", isVisible);

/** A ref for an element, and whether the element is on screen or close to it. */
export function useVisibility<E extends Element>() {
  const element = useRef<E>(null);
  const [seen, setSeen] = useState(false);
  useLayoutEffect(() => {
    const look = (changes: readonly IntersectionObserverEntry[]): void =>
      setSeen(changes.at(-1)?.isIntersecting ?? false);
    const observer = new IntersectionObserver(look, { rootMargin: "160px" });
    if (element.current !== null) observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, seen] as const;
}

/** Read values and parameters from the same run; null if one is not available. */
async function readFromOneRun(
  { state, queries }: Views,
  values: readonly Value[],
): Promise<Tensors | null> {
  for (let tries = 0; tries < 3; tries++) {
    const session = state.session.peek();
    const before = session?.sequence;
    const all = await Promise.all(values.map((value) => queries.read(value.key)));
    if (session !== state.session.peek() || session?.sequence !== before) continue;
    const found = new Map<string, Tensor>();
    for (const [i, { key, shape }] of values.entries()) {
      const data = all[i];
      if (data) found.set(key, { key, shape, data });
    }
    return found.size === values.length ? found : null;
  }
  return null; // runs are faster than reads; the next run retries
}

/** All elements of several values, from the same run; the previous run's until they arrive. */
export function useTensors(values: readonly Value[]): Tensors | null {
  const views = useViews();
  const session = views.state.session.value;
  const sequence = views.state.run.value?.sequence ?? 0;
  const [known, setKnown] = useState<{ of: readonly Value[]; tensors: Tensors } | null>(null);
  useEffect(() => {
    if (session === null || sequence === 0) return;
    let wanted = true;
    readFromOneRun(views, values).then(
      (tensors) => {
        if (wanted && tensors !== null) setKnown({ of: values, tensors });
      },
      (error: unknown) => {
        if (wanted) reportFailure(views, error);
      },
    );
    return () => {
      wanted = false;
    };
  }, [views, values, session, sequence]);
  return known !== null && known.of === values ? known.tensors : null;
}

/** Report a failed query as an error of the page, in the status message. */
export function reportFailure(views: Views, error: unknown): void {
  views.state.status.value = {
    phase: "error",
    title: "The page could not read a value",
    text: "The pictures may be out of date. Run the cell again, or reload the page.",
    action: "Details",
    detail: error instanceof Error ? error.message : String(error),
  };
}
