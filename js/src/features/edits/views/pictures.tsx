// Right: A without bends, B with them, and B − A; of the network's output, or of the layer itself.

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { short } from "../../../format.ts";
import { displayOf, frameOf } from "../../../network/display.ts";
import type { Network } from "../../../network/network.ts";
import type { Range, Statistics } from "../../../plan/runtime.ts";
import type { Value } from "../../../plan/schema.ts";
import {
  Bars,
  NumberPicture,
  shownElements,
  TopValues,
  useImageValues,
} from "../../../views/bars.tsx";
import { Choice } from "../../../views/choice.tsx";
import { useStatistics, useViews } from "../../../views/context.ts";
import { ImageRange } from "../../../views/image_range.tsx";
import { boxMosaic, fitScale, px, rank } from "../../../views/layout.ts";
import { Maps, useSharedEnds } from "../../../views/maps.tsx";
import { fixedRange, sharedEnds } from "../../compare/views/pairs.ts";
import { Held, Ranges, Wiped } from "../../compare/views/pictures.tsx";
import { useWithout } from "./derived.ts";
import { pickingOf } from "./picks.ts";

const SHOWINGS = [
  ["beside", "Side by side"],
  ["wipe", "Wipe"],
  ["hold", "Hold A"],
] as const;
const ABOUT = [
  ["output", "Output"],
  ["layer", "This layer"],
] as const;
const GAP = 12;
const LARGE = 320;
/** CSS pixels of a vector's bars, and how many named values stand beside each other. */
const BARS = 140;
const CLASSES = 8;
/** So many curves stand one below the other. */
const CURVES = 6;
const TITLES = ["without bends", "with bends"] as const;

type Limits = { low: number; high: number } | null;

export function Pictures(props: {
  network: Network;
  value: Value;
  channel: number;
  width: number;
}) {
  const { network, value, channel, width } = props;
  const { state } = useViews();
  const { showing, about } = pickingOf(state);
  const [output] = network.outputs;
  const isLayer = about.value === "layer" || output === undefined;
  const shown = isLayer ? value : output;
  return (
    <section class="nbg-bend-pictures" aria-label="Without and with bends">
      <header class="nbg-bend-heading">
        <Choice
          label="What is compared"
          items={ABOUT}
          now={isLayer ? "layer" : "output"}
          choose={(one) => {
            about.value = one;
          }}
          off={output === undefined && "output"}
        />
        <Choice
          label="How A and B are shown"
          items={SHOWINGS}
          now={showing.value}
          choose={(one) => {
            showing.value = one;
          }}
        />
      </header>
      <Three
        key={shown.key}
        b={shown}
        channel={shown === value ? channel : null}
        showing={showing.value}
        width={width}
      />
    </section>
  );
}

function Three(props: {
  b: Value;
  channel: number | null;
  showing: "beside" | "wipe" | "hold";
  width: number;
}) {
  const { b, showing, width } = props;
  const { state, names, ratio } = useViews();
  const known = useWithout(b);
  const a = known?.a ?? null;
  const difference = useMemo(() => asMaps(known?.difference ?? null), [known?.difference]);
  const [ofA, ofB] = [useStatistics(a), useStatistics(b)];
  const ofDifference = useStatistics(difference);
  const flat = displayOf(b).drawn === undefined;
  const [valuesA, valuesB] = [useImageValues(flat ? a : null), useImageValues(flat ? b : null)];
  const changed = useImageValues(flat ? difference : null);
  const image = displayOf(b).image && !flat;
  const channel = flat || displayOf(b).image ? null : props.channel;
  const apart = state.range.value === "channel" ? channel : null;
  const both = ofA && ofB && sharedEnds(ofA, ofB, apart);
  const pictured = useSharedEnds(image ? b : null, both);
  if (a === null) return <p class="nbg-second">…</p>;
  const limits = image ? pictured : both;
  const most = mostOf(ofDifference, channel);
  const signed = most === null ? null : { low: -most, high: most };
  const columns = showing === "beside" ? 3 : 2;
  // A pixel less: what a column is wide is no whole number.
  const side = Math.min(LARGE, Math.floor((width - 1 - (columns - 1) * GAP) / columns));
  const elements =
    names.value(b.key).length > 0 && valuesA && valuesB
      ? rank(Array.from(valuesA, (one, k) => Math.max(one, valuesB[k] ?? one))).slice(0, CLASSES)
      : shownElements(changed, b.nchw[1], Math.floor(side / 3));
  const isClasses = displayOf(b).name === "classes"; // which have no range
  const range = isClasses ? { mode: "fixed" as const } : fixedRange(limits);
  const picture = (of: Value) => (
    <One {...{ value: of, like: b, channel, side, limits, elements }} range={range} />
  );
  const [shownA, shownB] = [picture(a), picture(b)];
  const rangeOf = (of: Value) =>
    image && !isClasses ? <ImageRange value={of} of={b} ends={limits} /> : null;
  const over = { a: shownA, b: shownB, titles: TITLES };
  const ranges = image && !isClasses && <Ranges a={rangeOf(a)} b={rangeOf(b)} />;
  const one = difference && (
    <One
      value={difference}
      like={b}
      channel={channel}
      side={side}
      limits={signed}
      range={fixedRange(signed)}
      elements={elements}
      signed
    />
  );
  // The place of a difference that isn't there is as large as B's picture.
  const { drawn, image: asImage } = displayOf(b);
  const single = asImage || channel !== null || b.nchw[1] === 1;
  const { height: h, width: w } = frameOf(b);
  const scale = fitScale(Math.max(h, w), side * ratio.value) / ratio.value;
  const none =
    single && !flat && drawn !== "curves"
      ? { width: px(w * scale), height: px(h * scale) }
      : { height: px(side) };
  const text = most === null && difference ? "" : most ? `±${short(most)}` : "no difference";
  return (
    <div class="nbg-bend-three" data-showing={showing}>
      {showing === "beside" && (
        <>
          <Figure letter="A" title={TITLES[0]} side={side} range={rangeOf(a)}>
            {shownA}
          </Figure>
          <Figure letter="B" title={TITLES[1]} side={side} range={rangeOf(b)} mine>
            {shownB}
          </Figure>
        </>
      )}
      {showing === "wipe" && (
        <Wiped {...over} side={side}>
          {ranges}
        </Wiped>
      )}
      {showing === "hold" && <Held {...over}>{ranges}</Held>}
      <Figure letter="B − A" title={text} side={side}>
        {one ?? <span class="nbg-bend-none" style={none} />}
      </Figure>
    </div>
  );
}

/** How much an image differs is no image; of three colours it is one whose grey is zero. */
const asMaps = (value: Value | null): Value | null =>
  value === null || displayOf(value).name === "rgb" ? value : { ...value, kind: "layer" };

/** The largest difference, of a channel or of all; null until it is known or where none is finite. */
function mostOf(statistics: Statistics | null, channel: number | null): number | null {
  if (statistics === null) return null;
  const one = channel === null ? statistics.layer : statistics.channels[channel];
  const most = Math.max(-(one?.min ?? Number.NaN), one?.max ?? Number.NaN);
  return Number.isNaN(most) ? null : Math.max(0, most);
}

function Figure(props: {
  letter: string;
  title: string;
  side: number;
  mine?: boolean;
  /** An image's range, as a control. */
  range?: ComponentChildren;
  children: ComponentChildren;
}) {
  const { letter, title, side, mine = false, range, children } = props;
  return (
    <figure
      class={mine ? "nbg-bend-figure nbg-bend-mine" : "nbg-bend-figure"}
      style={{ width: px(side) }}
      aria-label={`${letter} ${title}`}
    >
      {children}
      <figcaption>
        <strong>{letter}</strong> <span class="nbg-second">{title}</span>
        {range && <div class="nbg-second">{range}</div>}
      </figcaption>
    </figure>
  );
}

/** A value as the other views show one of its kind; a difference in signed colours. */
function One(props: {
  value: Value;
  /** The value itself, where this is made of it. */
  like: Value;
  /** This channel alone; null for all of it. */
  channel: number | null;
  side: number;
  limits: Limits;
  range: Range | undefined;
  elements: readonly number[];
  signed?: boolean;
}) {
  const { value, like, channel, side, limits, range, elements, signed = false } = props;
  const { ratio: ratioOf, names } = useViews();
  const ratio = ratioOf.value;
  const count = value.nchw[1];
  const display = displayOf(like);
  const label = value.key;
  if (display.name === "number") return <NumberPicture value={value} />;
  if (display.name === "bars" && names.value(like.key).length > 0) {
    return <TopValues value={value} most={count} channels={elements} ends={limits} width={side} />;
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
        label={`${label}, ${elements.length} of ${count} values`}
      />
    );
  }
  const numbers = Array.from({ length: count }, (_, i) => i);
  const map = signed
    ? ("signed" as const)
    : display.name === "grey"
      ? ("grey" as const)
      : undefined;
  if (display.name === "curves") {
    const shown = channel === null ? numbers.slice(0, CURVES) : [channel];
    const gap = Math.round(ratio);
    const height = Math.min(side / 2, (side - shown.length + 1) / shown.length);
    return (
      <Maps
        value={value}
        channels={shown}
        columns={1}
        scale={1}
        gap={gap}
        cell={{ width: side, height }}
        range={range}
        label={label}
        lines
      />
    );
  }
  const { height, width } = frameOf(like);
  const isWhole = display.image && !(signed && display.name !== "rgb");
  if (isWhole || channel !== null || count === 1) {
    const scale = fitScale(Math.max(height, width), side * ratio);
    return (
      <Maps
        value={value}
        channels={isWhole ? numbers : [channel ?? 0]}
        columns={1}
        scale={Math.min(1, scale)}
        zoom={Math.max(1, scale) / ratio}
        map={map}
        range={range}
        rgb={isWhole && display.name === "rgb" ? true : undefined}
        label={label}
        lines
      />
    );
  }
  const gap = Math.round(ratio);
  const room = { width: side * ratio, height: side * ratio };
  const mosaic = boxMosaic({ channels: count, height, width }, room, gap, Math.round(20 * ratio));
  return (
    <Maps
      value={value}
      channels={numbers.slice(0, mosaic.shown)}
      columns={mosaic.columns}
      scale={mosaic.scale}
      gap={gap}
      map={map}
      range={range}
      label={label}
      lines
    />
  );
}
