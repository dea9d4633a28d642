// The data set panel: thumbnails around the current item, the item itself, playback, and the misprediction search.

import { useSignal } from "@preact/signals";
import { useId, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { formatInteger } from "../../../number_format.ts";
import { channelsAndSize } from "../../../pictures/resize.ts";
import { useViews } from "../../../views/context.ts";
import { PauseIcon, PlayIcon, ShuffleIcon } from "../../../views/icons.tsx";
import { NumberField } from "../../../views/number_field.tsx";
import type { ImagesRecord } from "../records.ts";
import type { SourceControls } from "../state.ts";
import type { SourcePanelProps } from "./panel_props.ts";
import { togglePlaying } from "./play_button.tsx";

/** Thumbnail side and gap in CSS pixels; rows and columns of the grid. */
const THUMB_SIDE = 40;
const THUMB_GAP = 5;
const GRID_ROWS = 5;
const GRID_COLUMNS = 8;
/** The label of unlabelled items; as a filter: any label. */
const ANY_LABEL = -1;

export function DatasetPanel({ input, source }: SourcePanelProps<ImagesRecord>) {
  const { state, width } = useViews();
  const label = useSignal(ANY_LABEL);
  const controls = state.sourceControls.value;
  const { labels = [], classes = [] } = controls ?? {};
  const chosen = label.value;
  const items = useMemo(
    () => (chosen === ANY_LABEL ? null : labels.flatMap((one, k) => (one === chosen ? [k] : []))),
    [labels, chosen],
  );
  if (source === null || controls === null) return null;
  const updateSource = (part: Partial<ImagesRecord>): void => {
    state.source.value = { ...source, ...part };
  };
  const named = (one: number): string => {
    const name = classes[one] ?? "";
    return name === "" ? `${one}` : `${name} (${one})`;
  };
  const own = labels[source.index] ?? ANY_LABEL;
  const search = controls.search;
  const room = width.value >= 760 ? (width.value - 32 - 226) / 2 : width.value - 32;
  const columns = Math.max(
    3,
    Math.min(GRID_COLUMNS, Math.floor((room + THUMB_GAP) / (THUMB_SIDE + THUMB_GAP))),
  );
  return (
    <div class="nbg-data">
      <header class="nbg-data-head">
        <h3>{source.title === "" ? "Data set" : source.title}</h3>
        {labels.length > 0 && (
          <select
            class="nbg-select"
            aria-label="Items with this label"
            value={chosen}
            onChange={(event) => {
              label.value = Number(event.currentTarget.value);
            }}
          >
            <option value={ANY_LABEL}>Any label</option>
            {[...new Set(labels)]
              .filter((one) => one >= 0)
              .sort((a, b) => a - b)
              .map((one) => (
                <option key={one} value={one}>
                  {named(one)}
                </option>
              ))}
          </select>
        )}
      </header>
      <ItemGrid
        {...{ source, controls, items, columns, updateSource }}
        itemShape={channelsAndSize(input)}
        describeItem={(k) => {
          const one = labels[k] ?? ANY_LABEL;
          return one < 0 ? `item ${k}` : `item ${k}, ${named(one)}`;
        }}
      />
      <span class="nbg-source-tools">
        <button
          type="button"
          class="nbg-button nbg-square"
          aria-label={source.playing ? "Pause the data set" : "Play the data set"}
          onClick={() => togglePlaying(state)}
        >
          {source.playing ? <PauseIcon /> : <PlayIcon />}
        </button>
        <button
          type="button"
          class="nbg-button nbg-square"
          aria-label="Shuffled"
          aria-pressed={source.shuffled}
          title="In a random order, set by the seed"
          onClick={() => updateSource({ shuffled: !source.shuffled })}
        >
          <ShuffleIcon />
        </button>
        <input
          type="range"
          min={0}
          max={source.count - 1}
          step={1}
          value={source.index}
          aria-label="Item"
          aria-valuetext={`item ${source.index} of ${formatInteger(source.count)}`}
          onInput={(event) => updateSource({ index: Number(event.currentTarget.value) })}
        />
        <NumberField
          keepsInvalid
          class="nbg-source-number"
          fieldClass=""
          label="Item"
          value={source.index}
          low={0}
          high={source.count - 1}
          step={1}
          setValue={(index) => updateSource({ index })}
        />
        <span class="nbg-second">of {formatInteger(source.count)}</span>
        <NumberField
          keepsInvalid
          class="nbg-source-number"
          fieldClass=""
          label="Items/s"
          value={source.rate}
          low={0.1}
          high={60}
          step={0.5}
          setValue={(rate) => updateSource({ rate })}
        />
      </span>
      {own >= 0 && (
        <p class="nbg-second">
          label <strong>{classes[own] || own}</strong> {classes[own] && `(${own})`}
        </p>
      )}
      {search !== undefined && (
        <span class="nbg-source-tools">
          <button
            type="button"
            class="nbg-button"
            onClick={() => (search.isRunning.peek() ? search.stop() : search.start())}
          >
            {search.isRunning.value ? "Stop searching" : "Next wrong prediction"}
          </button>
          <span class="nbg-second" role="status">
            {search.text.value}
          </span>
        </span>
      )}
    </div>
  );
}

function ItemGrid(props: {
  source: ImagesRecord;
  controls: SourceControls;
  /** The filtered items; null for all. */
  items: readonly number[] | null;
  columns: number;
  itemShape: readonly [number, number, number];
  describeItem: (index: number) => string;
  updateSource: (part: Partial<ImagesRecord>) => void;
}) {
  const { source, controls, items, columns, itemShape, describeItem, updateSource } = props;
  const id = useId();
  const count = items?.length ?? source.count;
  const size = columns * GRID_ROWS;
  // The current item may not match the filter: show the page of the next match.
  const nextMatch = items === null ? source.index : items.findIndex((one) => one >= source.index);
  const at = nextMatch < 0 ? Math.max(0, count - 1) : nextMatch;
  const from = Math.floor(at / size) * size;
  const shown = Array.from({ length: Math.max(0, Math.min(size, count - from)) }, (_, k) =>
    items === null ? from + k : (items[from + k] ?? 0),
  );
  const names = shown.join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the names say what is shown
  useLayoutEffect(() => controls.setVisibleItems(shown), [controls, names]);
  const go = (to: number): void => {
    const place = Math.min(count - 1, Math.max(0, to));
    if (count > 0) updateSource({ index: items === null ? place : (items[place] ?? 0) });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const to = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      ArrowUp: at - columns,
      ArrowDown: at + columns,
      PageUp: at - size,
      PageDown: at + size,
      Home: 0,
      End: count - 1,
    }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation(); // other handlers would select another layer
    go(to);
  };
  if (count === 0) return <p class="nbg-second">No item has this label.</p>;
  return (
    <div
      class="nbg-thumbs"
      role="listbox"
      tabIndex={0}
      aria-label="Items"
      aria-activedescendant={`${id}-${source.index}`}
      style={{ gridTemplateColumns: `repeat(${columns}, ${THUMB_SIDE}px)` }}
      onKeyDown={onKeyDown}
      onClick={(event) => {
        const item = event.target instanceof Element && event.target.closest("[data-index]");
        if (item) updateSource({ index: Number(item.getAttribute("data-index")) });
      }}
    >
      {shown.map((index) => (
        <div
          key={index}
          id={`${id}-${index}`}
          data-index={index}
          role="option"
          class="nbg-thumb"
          aria-label={describeItem(index)}
          aria-selected={index === source.index}
          tabIndex={-1}
          title={describeItem(index)}
        >
          <ItemThumb image={controls.itemImage(index)} itemShape={itemShape} />
        </div>
      ))}
    </div>
  );
}

function ItemThumb(props: {
  image: ImageData | undefined;
  itemShape: readonly [number, number, number];
}) {
  const { image, itemShape } = props;
  const [, height, width] = itemShape;
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    if (image !== undefined) canvas.current?.getContext("2d")?.putImageData(image, 0, 0);
  });
  const scale = THUMB_SIDE / Math.max(width, height);
  return (
    <canvas
      ref={canvas}
      class={scale < 1 ? "nbg-smooth" : ""}
      data-item={image === undefined ? "coming" : "here"}
      width={width}
      height={height}
      style={{ width: `${width * scale}px`, height: `${height * scale}px` }}
    />
  );
}
