// A, B and B − A of one layer as pictures: side by side, with a wipe line, or A while a key is held.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { channelPictureSize, displayStyle } from "../../../network/display_kind.ts";
import { displayedValue, type Network } from "../../../network/network.ts";
import { formatShort } from "../../../number_format.ts";
import type { ColorMapName, ColorRange } from "../../../plan/runtime.ts";
import type { Comparison, LayerPair, Value } from "../../../plan/schema.ts";
import {
  ComparedVector,
  shownElements,
  topIndicesOfEither,
  useExampleValues,
} from "../../../views/bar_chart.tsx";
import { colorMapLimits } from "../../../views/colorbar.tsx";
import { cssGradient } from "../../../views/colors.ts";
import { useStatistics, useViews } from "../../../views/context.ts";
import { ImageRange } from "../../../views/image_range.tsx";
import { fitScale, px } from "../../../views/layout.ts";
import { Maps, useSharedLimits } from "../../../views/maps.tsx";
import { fixedRange, sharedLimits } from "./layer_pairs.ts";

export type CompareMode = "beside" | "wipe" | "hold";
const MAX_SIDE = 376;
const GAP = 16;
/** Height in CSS pixels of a vector's bars. */
const BARS_HEIGHT = 150;

type ColorLimitsOrNull = { low: number; high: number } | null;

export function ComparedPictures(props: {
  network: Network;
  comparison: Comparison;
  pair: LayerPair;
  channel: number;
  compareMode: CompareMode;
}) {
  const { network, comparison, pair, channel, compareMode } = props;
  const { state, width, classNames } = useViews();
  const [a, b] = [displayedValueOf(network, pair.a), displayedValueOf(network, pair.b)];
  const difference = network.values.get(pair.difference) ?? null;
  const [ofA, ofB] = [useStatistics(a), useStatistics(b)];
  const ofDifference = useStatistics(difference);
  const changed = useExampleValues(difference && isDrawnAsBars(difference) ? difference : null);
  const called = classNames.value(difference?.key ?? "").length > 0;
  const [valuesA, valuesB] = [
    useExampleValues(called ? a : null),
    useExampleValues(called ? b : null),
  ];
  const image = a !== null && displayStyle(a).isImage;
  const apart = state.rangeMode.value === "channel" && !(a && isDrawnAsBars(a)) ? channel : null;
  const shared = ofA && ofB && sharedLimits(ofA, ofB, image ? null : apart);
  const pictured = useSharedLimits(image ? a : null, shared);
  const ofOne = ofDifference && sharedLimits(ofDifference, ofDifference, apart);
  const most = ofOne && Math.max(-ofOne.low, ofOne.high);
  const signed = useFixedLimits(
    `${pair.difference} ±`,
    most === null ? null : { low: -most, high: most },
  );
  const kept = useFixedLimits(`${pair.a} ${pair.b}`, shared);
  if (a === null || b === null || difference === null) return null;
  const room = width.value - 48;
  const columns = width.value < 520 ? 1 : compareMode === "beside" ? 3 : 2;
  const side = Math.min(MAX_SIDE, Math.floor((room - (columns - 1) * GAP) / columns));
  const bars =
    called && valuesA && valuesB
      ? topIndicesOfEither(valuesA, valuesB)
      : shownElements(changed, difference.nchw[1], Math.floor(side / 3));
  const picture = (value: Value, limits: ColorLimitsOrNull, map?: ColorMapName) => (
    <ValueView
      value={value}
      channel={channel}
      side={side}
      limits={limits}
      range={fixedRange(limits)}
      map={map}
      elementIndices={bars}
    />
  );
  const map = image ? "grey" : state.colormap.value;
  const isClasses = displayStyle(a).name === "classes"; // class colours have no range
  const both = isClasses ? null : image ? pictured : kept;
  const shownA = picture(a, both);
  const shownB = picture(b, both);
  const rangeOf = (value: Value) =>
    image && !isClasses ? <ImageRange value={value} rangeValue={a} limits={both} /> : null;
  const over = { a: shownA, b: shownB, titles: comparison.titles };
  const ranges = image && !isClasses && <RangePair a={rangeOf(a)} b={rangeOf(b)} />;
  return (
    <div class="nbg-compared">
      {compareMode === "beside" ? (
        <>
          <CaptionedPicture
            letter="A"
            title={comparison.titles[0]}
            {...{ side, map, limits: both, rangeControl: rangeOf(a) }}
          >
            {shownA}
          </CaptionedPicture>
          <CaptionedPicture
            letter="B"
            title={comparison.titles[1]}
            {...{ side, map, limits: both, rangeControl: rangeOf(b) }}
          >
            {shownB}
          </CaptionedPicture>
        </>
      ) : compareMode === "wipe" ? (
        <WipeView {...over} side={side}>
          {ranges}
        </WipeView>
      ) : (
        <HoldView {...over}>{ranges}</HoldView>
      )}
      <CaptionedPicture
        letter="B − A"
        title=""
        side={side}
        limits={signed}
        map="signed"
        rangeControl={null}
      >
        {picture(difference, signed, "signed")}
      </CaptionedPicture>
    </div>
  );
}

/** The limits; in the range mode "Fixed", the limits from when it was selected. */
function useFixedLimits(key: string, limits: ColorLimitsOrNull): ColorLimitsOrNull {
  const { state } = useViews();
  const fixed = state.rangeMode.value === "fixed";
  const kept = state.colorLimits.value.get(key);
  useEffect(() => {
    if (!fixed || kept !== undefined || limits === null) return;
    state.colorLimits.value = new Map([...state.colorLimits.peek(), [key, limits]]);
  });
  return (fixed && kept) || limits;
}

function displayedValueOf(network: Network, key: string): Value | null {
  const value = network.values.get(key);
  return value === undefined ? null : displayedValue(network, value);
}

const isDrawnAsBars = (value: Value): boolean => displayStyle(value).drawMode === undefined;

function ValueView(props: {
  value: Value;
  channel: number;
  side: number;
  limits: ColorLimitsOrNull;
  range: ColorRange | undefined;
  map: ColorMapName | undefined;
  elementIndices: readonly number[];
}) {
  const { value, channel, side, limits, range, map, elementIndices } = props;
  const { pixelRatio } = useViews();
  const channels = value.nchw[1];
  const { height, width } = channelPictureSize(value);
  const display = displayStyle(value);
  if (display.drawMode === undefined) {
    return (
      <ComparedVector
        value={value}
        width={side}
        height={BARS_HEIGHT}
        limits={limits}
        elements={elementIndices}
      />
    );
  }
  const scale = fitScale(Math.max(height, width), side * pixelRatio.value);
  const all = Array.from({ length: channels }, (_, i) => i);
  return (
    <Maps
      value={value}
      channels={display.isImage ? all : [Math.min(channel, channels - 1)]}
      columns={1}
      scale={Math.min(1, scale)}
      zoom={Math.max(1, scale) / pixelRatio.value}
      range={range}
      colorMap={map}
      showRank={scale >= 1}
      hasHairlines
      label={display.isPerChannel ? `${value.key}, channel ${channel}` : value.key}
    />
  );
}

/** A picture above its letter, its title and its colour legend. */
function CaptionedPicture(props: {
  letter: string;
  title: string;
  side: number;
  limits: ColorLimitsOrNull;
  map: ColorMapName;
  /** The range control of an image, instead of the legend. */
  rangeControl: ComponentChildren;
  children: ComponentChildren;
}) {
  const { letter, title, side, limits, map, rangeControl, children } = props;
  const theme = useViews().theme.value;
  const shown = limits && colorMapLimits(limits.low, limits.high, map === "signed");
  return (
    <figure
      class="nbg-compared-figure"
      style={{ width: px(side) }}
      aria-label={title === "" ? letter : `${letter}, ${title}`}
    >
      {children}
      <figcaption>
        <strong>{letter}</strong>
        {title !== "" && <span class="nbg-second">{title}</span>}
        {rangeControl && <span class="nbg-second">{rangeControl}</span>}
        {!rangeControl && shown !== null && shown.low === shown.high && (
          <span class="nbg-legend">{formatShort(shown.low)} everywhere</span>
        )}
        {!rangeControl && shown !== null && shown.low < shown.high && (
          <span class="nbg-legend">
            <span>{formatShort(shown.low)}</span>
            <span
              class="nbg-gradient"
              style={{ background: cssGradient(map, theme, shown.from, shown.to) }}
            />
            <span>{formatShort(shown.high)}</span>
          </span>
        )}
      </figcaption>
    </figure>
  );
}

interface OverlayProps {
  a: ComponentChildren;
  b: ComponentChildren;
  titles: readonly [string, string];
  /** Content below the pictures. */
  children?: ComponentChildren;
}

/** The ranges of two overlaid pictures. */
export function RangePair({ a, b }: Pick<OverlayProps, "a" | "b">) {
  return (
    <>
      <span class="nbg-second">
        <strong>A</strong> {a}
      </span>
      <span class="nbg-second">
        <strong>B</strong> {b}
      </span>
    </>
  );
}

const titleWithLetter = (letter: string, title: string): string =>
  title === "" ? letter : `${letter} ${title}`;

/** Wipe: A left of the line, B right of it. */
export function WipeView({ a, b, side, titles, children }: OverlayProps & { side: number }) {
  const [at, setAt] = useState(50);
  return (
    <figure class="nbg-compared-figure" aria-label="A wiped over B">
      <span class="nbg-layered">
        {b}
        <span class="nbg-overlay-figure" style={{ clipPath: `inset(0 ${100 - at}% 0 0)` }}>
          {a}
        </span>
        <span class="nbg-wipe-line" style={{ left: `${at}%` }} />
      </span>
      <figcaption>
        <strong>{titleWithLetter("A", titles[0])}</strong>
        <input
          type="range"
          min={0}
          max={100}
          value={at}
          style={{ width: px(Math.min(160, side / 2)) }}
          aria-label="Share of A"
          aria-valuetext={`${at} % A`}
          onInput={(event) => setAt(Number(event.currentTarget.value))}
        />
        <strong>{titleWithLetter("B", titles[1])}</strong>
        {children}
      </figcaption>
    </figure>
  );
}

/** Show B, or A while the button or the key is held. */
export function HoldView({ a, b, titles, children }: OverlayProps) {
  const { root } = useViews();
  const [held, setHeld] = useState(false);
  // Layout effect: the next key may be pressed before the next paint.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const typing = event.target instanceof HTMLElement && event.target.closest("select");
      if (event.key === "a" && !typing) setHeld(event.type === "keydown");
    };
    const release = (): void => setHeld(false);
    const types = ["keydown", "keyup"] as const;
    for (const type of types) root.addEventListener(type, onKey);
    window.addEventListener("blur", release);
    return () => {
      for (const type of types) root.removeEventListener(type, onKey);
      window.removeEventListener("blur", release);
    };
  }, [root]);
  const press = (down: boolean) => () => setHeld(down);
  return (
    <figure class="nbg-compared-figure" aria-label={held ? "A" : "B"} data-held={held}>
      <span class="nbg-layered">
        {b}
        <span class="nbg-overlay-figure" style={held ? {} : { visibility: "hidden" }}>
          {a}
        </span>
      </span>
      <figcaption>
        <strong>{held ? titleWithLetter("A", titles[0]) : titleWithLetter("B", titles[1])}</strong>
        <button
          type="button"
          class="nbg-button"
          aria-pressed={held}
          onPointerDown={press(true)}
          onPointerUp={press(false)}
          onPointerLeave={press(false)}
          onKeyDown={(event) => event.key === " " && setHeld(true)}
          onKeyUp={(event) => event.key === " " && setHeld(false)}
        >
          Hold to see A <kbd>a</kbd>
        </button>
        {children}
      </figcaption>
    </figure>
  );
}
