// What every component of one viewer shares, and the hooks that ask a session for numbers.
import type { ReadonlySignal, Signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Tensor, Tensors } from "../explain/tensor.ts";
import type { Feature } from "../features/feature.ts";
import type { ClassNames } from "../network/class_names.ts";
import type { Network } from "../network/network.ts";
import type { ClippedCounts, Histogram, Statistics, Theme, TopK } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import type { ViewerState } from "../state.ts";
import type { Painter } from "./painter.ts";
import type { LayerCost } from "./profile/costs.ts";
import { type HistogramQuery, isSkipped, type RunQueries } from "./run_queries.ts";

/** A position in CSS pixels from the viewer's top left corner. */
export interface PointerPosition {
  readonly left: number;
  readonly top: number;
  /** What the pointer is over. */
  readonly element: Element;
}

/** A place in a picture under the pointer. */
export interface Hover extends PointerPosition {
  readonly value: Value;
  readonly channels: readonly number[];
  readonly y: number;
  readonly x: number;
  /** Also say the value's rank within its map. */
  readonly showRank: boolean;
}

/** A tooltip that is already worded. */
export interface TextTooltip extends PointerPosition {
  readonly title: string;
  readonly text: string;
}

export interface Views {
  readonly features: readonly Feature[];
  readonly state: ViewerState;
  readonly network: ReadonlySignal<Network | null>;
  /** What the classes are called, of values that are of the classes. */
  readonly classNames: ReadonlySignal<ClassNames>;
  readonly theme: ReadonlySignal<Theme>;
  /** How much the viewer is enlarged for a projector: 1 in a notebook. */
  readonly zoom: ReadonlySignal<number>;
  /** Device pixels of one of the viewer's CSS pixels. */
  readonly pixelRatio: ReadonlySignal<number>;
  /** The width of the viewer's content in CSS pixels, without its scrollbar. */
  readonly width: ReadonlySignal<number>;
  /** How high the content can be without scrolling, in CSS pixels; null where nothing limits it. */
  readonly contentHeight: ReadonlySignal<number | null>;
  readonly root: HTMLElement;
  readonly painter: Painter;
  readonly queries: RunQueries;
  /** The pixel under the pointer. */
  readonly hover: Signal<Hover | null>;
  readonly tooltip: Signal<TextTooltip | null>;
  /** The row of attention weights that was pointed at last: whose value's, and which token. */
  readonly attentionRow: Signal<{ readonly key: string; readonly row: number } | null>;
  /** The layer under the pointer. */
  readonly hoveredLayer: Signal<string | null>;
  /** What each layer costs; not news with every run: estimates are shares here. */
  readonly costs: ReadonlySignal<readonly LayerCost[]>;
  /** The list of keys is open. */
  readonly isHelpOpen: Signal<boolean>;
  /** Channels of the open layer in the order in which they are shown. */
  readonly channelOrder: Signal<readonly number[]>;
}

export const ViewsContext = createContext<Views | null>(null);

export function useViews(): Views {
  const views = useContext(ViewsContext);
  if (views === null) throw new Error("a view outside of mount()");
  return views;
}

/** False in the first frames of a view: a click shows its choice at once, and what stands beside it right after that. */
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

/** Where the pointer is in an element, in the viewer's CSS pixels: one that is presented is enlarged. */
export function pointerIn(element: Element, event: MouseEvent, { zoom }: Views) {
  const box = element.getBoundingClientRect();
  return {
    left: (event.clientX - box.left) / zoom.value,
    top: (event.clientY - box.top) / zoom.value,
  };
}

/** Where the pointer is in a viewer. */
export function pointerPosition(event: PointerEvent, views: Views): PointerPosition {
  return { ...pointerIn(views.root, event, views), element: event.currentTarget as Element };
}

/** The image of a value that belongs to the chosen example; 0 for a value without the batch's axis. */
export function imageIndex(value: Value, network: Network, example: number): number {
  return value.nchw[0] === network.batch ? Math.min(example, network.batch - 1) : 0;
}

interface CachedAnswer<T> {
  readonly key: string;
  readonly query: string;
  readonly answer: T;
}

/**
 * What `ask` answers for this run; the last run's answer stays until then, another value's never.
 * `query`: what else of the value is asked for, in words; `isEnabled`: false where nobody sees it now.
 */
export function useQuery<T>(
  value: Value | null,
  ask: (views: Views, value: Value, image: number) => Promise<T | null>,
  query = "",
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
      ask(views, value, image).then(
        (answer) => {
          if (wanted && answer !== null) setKnown({ key: value.key, query, answer });
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
  }, [views, value, session, sequence, image, query, isEnabled]);
  if (value === null || isSkipped(session, value.key)) return null; // what is known is old
  return known !== null && known.key === value.key && known.query === query ? known.answer : null;
}

const queryStatistics = (views: Views, value: Value, image: number) =>
  views.queries.statistics(value.key, image);
const queryValues = (views: Views, value: Value) => views.queries.read(value.key);
const queryTopk = (views: Views, value: Value, image: number) =>
  views.queries.topk(value.key, image, MAX_TOP_VALUES);

/** Of scores so many are shown at most. */
export const MAX_TOP_VALUES = 10;

/** Numbers of the shown image of a value, or null before they are there. */
export const useStatistics = (value: Value | null): Statistics | null =>
  useQuery(value, queryStatistics);

/** How the shown image's values are spread, or null before that is known. */
export const useHistogram = (value: Value | null, spread: HistogramQuery): Histogram | null =>
  useQuery(
    value,
    ({ queries }, { key }, image) => queries.histogram(key, image, spread),
    `${spread.bins} ${spread.channel}`,
  );

/** How many numbers of the shown image a range clips, or null before that is known. */
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

/** All elements of a value or parameter, or null before they are there. */
export const useValues = (value: Value | null): Float32Array | null => useQuery(value, queryValues);

/** The largest scores of the shown image, which nobody picks out while they are out of sight; null before they are there. */
export const useTopk = (value: Value | null, isVisible: boolean): TopK | null =>
  useQuery(value, queryTopk, "", isVisible);

/** An element to look at, and whether it is in sight or nearly. */
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

/** Values and parameters of one and the same run; null when one is not to be had. */
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
  return null; // runs come faster than they can be read; the next one asks again
}

/** All elements of several values, of one run; the last run's until the next are there. */
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

/** A failed question is a fault of the page, said where all faults are said. */
export function reportFailure(views: Views, error: unknown): void {
  views.state.status.value = {
    phase: "error",
    title: "The page could not read a value",
    text: "The pictures may be out of date. Run the cell again, or reload the page.",
    action: "Details",
    detail: error instanceof Error ? error.message : String(error),
  };
}
