// A, B and B − A of one layer as pictures: side by side, one wiped over the other, or A while it is held.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { short } from "../../../format.ts";
import { displayOf, frameOf } from "../../../network/display.ts";
import { type Network, picturedAs } from "../../../network/network.ts";
import type { ColorMapName, Range } from "../../../plan/runtime.ts";
import type { Comparison, Pair, Value } from "../../../plan/schema.ts";
import {
  Bars,
  NumberPicture,
  shownElements,
  TopValues,
  useImageValues,
} from "../../../views/bars.tsx";
import { colorLimits } from "../../../views/colorbar.tsx";
import { gradient } from "../../../views/colors.ts";
import { useStatistics, useViews } from "../../../views/context.ts";
import { ImageRange } from "../../../views/image_range.tsx";
import { fitScale, px, rank } from "../../../views/layout.ts";
import { Maps, useSharedEnds } from "../../../views/maps.tsx";
import { fixedRange, sharedEnds } from "./pairs.ts";

export type Showing = "beside" | "wipe" | "hold";
const LARGE = 376;
const GAP = 16;
/** CSS pixels of a vector's bars. */
const BARS = 150;
/** How many classes stand beside each other with their names. */
const CLASSES = 8;

type Limits = { low: number; high: number } | null;

export function Pictures(props: {
  network: Network;
  comparison: Comparison;
  pair: Pair;
  channel: number;
  showing: Showing;
}) {
  const { network, comparison, pair, channel, showing } = props;
  const { state, width, names } = useViews();
  const [a, b] = [drawnAs(network, pair.a), drawnAs(network, pair.b)];
  const difference = network.values.get(pair.difference) ?? null;
  const [ofA, ofB] = [useStatistics(a), useStatistics(b)];
  const ofDifference = useStatistics(difference);
  const changed = useImageValues(difference && isFlat(difference) ? difference : null);
  const called = names.value(difference?.key ?? "").length > 0;
  const [valuesA, valuesB] = [useImageValues(called ? a : null), useImageValues(called ? b : null)];
  const image = a !== null && displayOf(a).image;
  const apart = state.range.value === "channel" && !(a && isFlat(a)) ? channel : null;
  const shared = ofA && ofB && sharedEnds(ofA, ofB, image ? null : apart);
  const pictured = useSharedEnds(image ? a : null, shared);
  const ofOne = ofDifference && sharedEnds(ofDifference, ofDifference, apart);
  const most = ofOne && Math.max(-ofOne.low, ofOne.high);
  const signed = useKept(`${pair.difference} ±`, most === null ? null : { low: -most, high: most });
  const kept = useKept(`${pair.a} ${pair.b}`, shared);
  if (a === null || b === null || difference === null) return null;
  const room = width.value - 48;
  const columns = width.value < 520 ? 1 : showing === "beside" ? 3 : 2;
  const side = Math.min(LARGE, Math.floor((room - (columns - 1) * GAP) / columns));
  const bars =
    called && valuesA && valuesB
      ? largestOfBoth(valuesA, valuesB)
      : shownElements(changed, difference.nchw[1], Math.floor(side / 3));
  const picture = (value: Value, limits: Limits, map?: ColorMapName) => (
    <One
      value={value}
      channel={channel}
      side={side}
      limits={limits}
      range={fixedRange(limits)}
      map={map}
      elements={bars}
    />
  );
  const map = image ? "grey" : state.colormap.value;
  const isClasses = displayOf(a).name === "classes"; // whose colours have no ends
  const both = isClasses ? null : image ? pictured : kept;
  const shownA = picture(a, both);
  const shownB = picture(b, both);
  const rangeOf = (value: Value) =>
    image && !isClasses ? <ImageRange value={value} of={a} ends={both} /> : null;
  const over = { a: shownA, b: shownB, titles: comparison.titles };
  const ranges = image && !isClasses && <Ranges a={rangeOf(a)} b={rangeOf(b)} />;
  return (
    <div class="nbg-compared">
      {showing === "beside" ? (
        <>
          <Captioned
            letter="A"
            title={comparison.titles[0]}
            {...{ side, map, limits: both, range: rangeOf(a) }}
          >
            {shownA}
          </Captioned>
          <Captioned
            letter="B"
            title={comparison.titles[1]}
            {...{ side, map, limits: both, range: rangeOf(b) }}
          >
            {shownB}
          </Captioned>
        </>
      ) : showing === "wipe" ? (
        <Wiped {...over} side={side}>
          {ranges}
        </Wiped>
      ) : (
        <Held {...over}>{ranges}</Held>
      )}
      <Captioned letter="B − A" title="" side={side} limits={signed} map="signed" range={null}>
        {picture(difference, signed, "signed")}
      </Captioned>
    </div>
  );
}

/** The given limits, or for the range "Fixed" those of when it was chosen. */
function useKept(key: string, limits: Limits): Limits {
  const { state } = useViews();
  const fixed = state.range.value === "fixed";
  const kept = state.colorLimits.value.get(key);
  useEffect(() => {
    if (!fixed || kept !== undefined || limits === null) return;
    state.colorLimits.value = new Map([...state.colorLimits.peek(), [key, limits]]);
  });
  return (fixed && kept) || limits;
}

function drawnAs(network: Network, key: string): Value | null {
  const value = network.values.get(key);
  return value === undefined ? null : picturedAs(network, value);
}

/** Of classes those that are largest in A or in B. */
const largestOfBoth = (a: Float32Array, b: Float32Array): number[] =>
  rank(Array.from(a, (one, k) => Math.max(one, b[k] ?? one))).slice(0, CLASSES);

const isFlat = (value: Value): boolean => displayOf(value).drawn === undefined;

function One(props: {
  value: Value;
  channel: number;
  side: number;
  limits: Limits;
  range: Range | undefined;
  map: ColorMapName | undefined;
  elements: readonly number[];
}) {
  const { value, channel, side, limits, range, map, elements } = props;
  const { ratio, names } = useViews();
  const channels = value.nchw[1];
  const { height, width } = frameOf(value);
  const display = displayOf(value);
  if (display.name === "number") return <NumberPicture value={value} />;
  if (display.name === "bars" && names.value(value.key).length > 0) {
    return (
      <TopValues value={value} most={channels} channels={elements} ends={limits} width={side} />
    );
  }
  if (display.name === "bars") {
    const longest = limits && Math.max(-limits.low, limits.high);
    return (
      <Bars
        value={value}
        width={side}
        height={BARS}
        most={elements.length}
        channels={elements}
        {...(longest && { longest })}
        upright
        label={`${value.key}, ${elements.length} of ${channels} values`}
      />
    );
  }
  const scale = fitScale(Math.max(height, width), side * ratio.value);
  const all = Array.from({ length: channels }, (_, i) => i);
  return (
    <Maps
      value={value}
      channels={display.image ? all : [Math.min(channel, channels - 1)]}
      columns={1}
      scale={Math.min(1, scale)}
      zoom={Math.max(1, scale) / ratio.value}
      range={range}
      map={map}
      rank={scale >= 1}
      lines
      label={display.each ? `${value.key}, channel ${channel}` : value.key}
    />
  );
}

/** A picture over its letter, its title and what its colours mean. */
function Captioned(props: {
  letter: string;
  title: string;
  side: number;
  limits: Limits;
  map: ColorMapName;
  /** In place of the legend: an image's range, as a control. */
  range: ComponentChildren;
  children: ComponentChildren;
}) {
  const { letter, title, side, limits, map, range, children } = props;
  const theme = useViews().theme.value;
  const shown = limits && colorLimits(limits.low, limits.high, map === "signed");
  return (
    <figure
      class="nbg-one"
      style={{ width: px(side) }}
      aria-label={title === "" ? letter : `${letter}, ${title}`}
    >
      {children}
      <figcaption>
        <strong>{letter}</strong>
        {title !== "" && <span class="nbg-second">{title}</span>}
        {range && <span class="nbg-second">{range}</span>}
        {!range && shown !== null && shown.low === shown.high && (
          <span class="nbg-legend">{short(shown.low)} everywhere</span>
        )}
        {!range && shown !== null && shown.low < shown.high && (
          <span class="nbg-legend">
            <span>{short(shown.low)}</span>
            <span
              class="nbg-gradient"
              style={{ background: gradient(map, theme, shown.from, shown.to) }}
            />
            <span>{short(shown.high)}</span>
          </span>
        )}
      </figcaption>
    </figure>
  );
}

interface OverProps {
  a: ComponentChildren;
  b: ComponentChildren;
  titles: readonly [string, string];
  /** Below the pictures. */
  children?: ComponentChildren;
}

/** The ranges of two pictures that lie over each other. */
export function Ranges({ a, b }: Pick<OverProps, "a" | "b">) {
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

const named = (letter: string, title: string): string =>
  title === "" ? letter : `${letter} ${title}`;

/** A left of the line, B right of it. */
export function Wiped({ a, b, side, titles, children }: OverProps & { side: number }) {
  const [at, setAt] = useState(50);
  return (
    <figure class="nbg-one" aria-label="A wiped over B">
      <span class="nbg-layered">
        {b}
        <span class="nbg-top-one" style={{ clipPath: `inset(0 ${100 - at}% 0 0)` }}>
          {a}
        </span>
        <span class="nbg-wipe-line" style={{ left: `${at}%` }} />
      </span>
      <figcaption>
        <strong>{named("A", titles[0])}</strong>
        <input
          type="range"
          min={0}
          max={100}
          value={at}
          style={{ width: px(Math.min(160, side / 2)) }}
          aria-label="How much of A is shown"
          aria-valuetext={`${at} % A`}
          onInput={(event) => setAt(Number(event.currentTarget.value))}
        />
        <strong>{named("B", titles[1])}</strong>
        {children}
      </figcaption>
    </figure>
  );
}

/** B; A while the button or the key is held. */
export function Held({ a, b, titles, children }: OverProps) {
  const { root } = useViews();
  const [held, setHeld] = useState(false);
  // At once: the next key may come before a picture is painted.
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
    <figure class="nbg-one" aria-label={held ? "A" : "B"} data-held={held}>
      <span class="nbg-layered">
        {b}
        <span class="nbg-top-one" style={held ? {} : { visibility: "hidden" }}>
          {a}
        </span>
      </span>
      <figcaption>
        <strong>{held ? named("A", titles[0]) : named("B", titles[1])}</strong>
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
