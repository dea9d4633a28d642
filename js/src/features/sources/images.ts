import { channelsAndSize } from "../../pictures/resize.ts";
// Data set source: items in their own order or shuffled, from blocks that are loaded on access.

import { formatInteger } from "../../number_format.ts";
import type { Input } from "../../plan/schema.ts";
import { createBlockCache } from "./block_cache.ts";
import { type FrameLoop, startFrameLoop } from "./frame_loop.ts";
import { type OpenSource, repeatPerExample } from "./input_slot.ts";
import { createMispredictionSearch } from "./misprediction_search.ts";
import type { ImagesRecord } from "./records.ts";
import { nextItem } from "./shuffle.ts";
import { pythonString, type SourceKind } from "./source_kind.ts";

/** An item's values as the input expects them: bytes are divided by 255, unless the input itself is uint8. */
export function itemValues(item: Uint8Array | Float32Array, { dtype }: Pick<Input, "dtype">) {
  if (item instanceof Float32Array) return item;
  const white = dtype === "uint8" ? 1 : 255;
  return Float32Array.from(item, (byte) => byte / white);
}

/**
 * An item as a picture: grey or RGB, on black if it has alpha. Values outside 0 to 1 are scaled from their minimum and
 * maximum.
 */
export function itemImage(
  item: Uint8Array | Float32Array,
  input: Pick<Input, "shape" | "layout">,
): ImageData {
  const [channels, height, width] = channelsAndSize(input);
  const size = height * width;
  const colors = channels >= 3 ? 3 : 1;
  const last = input.layout === "NHWC";
  const shown = last ? item : item.subarray(0, colors * size);
  let [low, high] = item instanceof Float32Array ? [0, 1] : [0, 255];
  if (item instanceof Float32Array) {
    const [least, most] = minMax(shown);
    if (least < 0 || most > 1) [low, high] = [least, most];
  }
  const times = 255 / (high - low || 1);
  const image = new ImageData(width, height);
  const white = item instanceof Float32Array ? 1 : 255;
  for (let at = 0; at < size; at++) {
    const opaque = channels < 4 ? white : item[last ? at * channels + 3 : 3 * size + at];
    const alpha = Math.min(1, Math.max(0, (opaque ?? white) / white));
    for (let k = 0; k < 3; k++) {
      const color = colors === 3 ? k : 0;
      const number = shown[last ? at * channels + color : color * size + at] ?? 0;
      image.data[4 * at + k] = (number - low) * times * alpha;
    }
    image.data[4 * at + 3] = 255;
  }
  return image;
}

function minMax(numbers: Uint8Array | Float32Array): readonly [number, number] {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const number of numbers) {
    if (number < low) low = number;
    if (number > high) high = number;
  }
  return [low, high];
}

/**
 * If another page or the reader changed the item within this share of the interval, that client leads and this page
 * doesn't step.
 */
const LEAD_INTERVAL_FRACTION = 0.8;

const openImages: OpenSource<ImagesRecord> = (slot) => {
  const { input, feeder } = slot;
  const sides = channelsAndSize(input);
  const numbers = sides[0] * sides[1] * sides[2];
  const first = slot.source;
  let running: FrameLoop | undefined;
  let closed = false;
  /** The item that is being loaded. */
  let wanted = first.index;
  let asked = 0;
  /**
   * Whether this page is stepping, and the time of the last change by another client, from which the interval restarts.
   */
  let stepping = false;
  let changed = performance.now();

  const blocks = createBlockCache(
    first,
    numbers,
    feeder,
    () => slot.updateControls({}), // re-renders the thumbnails with the new block
  );
  const data = async (index: number): Promise<Float32Array> => {
    wanted = index;
    return repeatPerExample(itemValues(await blocks.get(index), input), input);
  };

  const feed = async (): Promise<void> => {
    asked += 1;
    const mine = asked;
    const { source } = slot;
    try {
      const found = await data(source.index);
      if (mine !== asked || closed) return;
      blocks.peekOrRequest(nextItem(source, 1)); // prefetch the next item
      await slot.feed({ data: found }, source, () => running !== undefined);
    } catch (error) {
      if (mine === asked && !closed) slot.fail("lost", error);
    }
  };
  const step = (by: 1 | -1): void => {
    stepping = true;
    slot.change({ index: nextItem(slot.source, by) });
    stepping = false;
  };
  const search = createMispredictionSearch(slot, data, () => running === undefined);
  const setVisibleItems = (seen: readonly number[]): void => {
    const { source } = slot;
    blocks.cancelOthers([...seen, wanted, source.index, nextItem(source, 1)]);
  };
  const pictured = (index: number): ImageData | undefined => {
    const item = blocks.peekOrRequest(index);
    return item && itemImage(item, input);
  };
  slot.updateControls({ step, setVisibleItems, itemImage: pictured });

  const textsOf = async (name: string): Promise<unknown> =>
    name === "" ? [] : JSON.parse(new TextDecoder().decode(await feeder.blob(name)));
  const bringLabels = async (): Promise<void> => {
    const [labels, classes] = await Promise.all([textsOf(first.labels), textsOf(first.classes)]);
    if (closed || !Array.isArray(labels) || !Array.isArray(classes)) return;
    const numbered = labels.map(Number);
    slot.updateControls({
      labels: numbered,
      classes: classes.map(String),
      search: search.of(numbered),
    });
  };
  // The data set works without labels.
  bringLabels().catch((error: unknown) => {
    if (!closed) console.warn(`nbglcnn: no labels: ${error}`);
  });
  void feed();

  return {
    update() {
      if (stepping && running !== undefined) return; // the stepping loop feeds the item itself
      changed = performance.now();
      search.stop();
      void feed();
    },
    start() {
      changed = performance.now();
      search.stop();
      running = startFrameLoop(
        () => slot.source.rate,
        () => Promise.resolve(),
        async () => {
          const { rate } = slot.source;
          if (rate > 0 && performance.now() - changed < (LEAD_INTERVAL_FRACTION * 1000) / rate)
            return;
          step(1);
          await feed();
        },
      );
    },
    stop() {
      void running?.stop();
      running = undefined;
    },
    dispose() {
      closed = true;
      search.stop();
      blocks.dispose();
      for (const name of [first.labels, first.classes]) if (name !== "") feeder.release(name);
    },
  };
};

export const images = {
  label: "Data set",
  icon: "M2.2 2.2h4.6v4.6H2.2zM9.2 2.2h4.6v4.6H9.2zM2.2 9.2h4.6v4.6H2.2zM9.2 9.2h4.6v4.6H9.2z",
  title: ({ title, index }) => `${title || "Data set"} ${formatInteger(index)}`,
  pythonLine: ({ folder, index, playing, rate, shuffled, seed }, call) =>
    // Only Python has a name for data sets not loaded from a folder.
    folder === ""
      ? `viewer.source = viewer.source.at(${index})`
      : call(
          "Images",
          pythonString(folder),
          `index=${index}`,
          playing && "playing=True",
          playing && `rate=${rate}`,
          shuffled && "shuffled=True",
          shuffled && `seed=${seed}`,
        ),
  failures: {
    lost: [
      "Part of the data set has not loaded",
      "Choose another item, or run the cell again to load all items.",
    ],
  },
  accepts: () => true,
  isPythonOnly: true,
  startsOnSelect: true,
  canPlay: ({ count }) => count > 1,
  open: openImages,
} satisfies SourceKind<ImagesRecord>;
