// The right column: A without bends, B with bends, and B − A, for the network's output or for the layer itself.

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { channelPictureSize, displayStyle } from "../../../network/display_kind.ts";
import type { Network } from "../../../network/network.ts";
import { formatShort } from "../../../number_format.ts";
import type { ColorRange, Statistics } from "../../../plan/runtime.ts";
import type { Value } from "../../../plan/schema.ts";
import {
  ComparedVector,
  shownElements,
  topIndicesOfEither,
  useExampleValues,
} from "../../../views/bar_chart.tsx";
import { Choice } from "../../../views/choice.tsx";
import { useStatistics, useViews } from "../../../views/context.ts";
import { ImageRange } from "../../../views/image_range.tsx";
import { boxMosaic, fitScale, px } from "../../../views/layout.ts";
import { Maps, useSharedLimits } from "../../../views/maps.tsx";
import { HoldView, RangePair, WipeView } from "../../compare/views/compared_pictures.tsx";
import { fixedRange, sharedLimits } from "../../compare/views/layer_pairs.ts";
import { bendViewState } from "./channel_selection.ts";
import { useUneditedValue } from "./session_values.ts";

const COMPARE_MODES = [
  ["beside", "Side by side"],
  ["wipe", "Wipe"],
  ["hold", "Hold A"],
] as const;
const COMPARE_SUBJECTS = [
  ["output", "Output"],
  ["layer", "This layer"],
] as const;
const GAP = 12;
const MAX_SIDE = 320;
/** Height in CSS pixels of a vector's bars. */
const BARS_HEIGHT = 140;
/** Maximum number of stacked curves. */
const MAX_CURVES = 6;
const PICTURE_TITLES = ["without bends", "with bends"] as const;

type ColorLimitsOrNull = { low: number; high: number } | null;

export function BendPictures(props: {
  network: Network;
  value: Value;
  channel: number;
  width: number;
}) {
  const { network, value, channel, width } = props;
  const { state } = useViews();
  const { compareMode, compareSubject } = bendViewState(state);
  const [output] = network.outputs;
  const isLayer = compareSubject.value === "layer" || output === undefined;
  const shown = isLayer ? value : output;
  return (
    <section class="nbg-bend-pictures" aria-label="Without and with bends">
      <header class="nbg-bend-heading">
        <Choice
          label="What is compared"
          items={COMPARE_SUBJECTS}
          selected={isLayer ? "layer" : "output"}
          choose={(one) => {
            compareSubject.value = one;
          }}
          disabledItem={output === undefined && "output"}
        />
        <Choice
          label="How A and B are shown"
          items={COMPARE_MODES}
          selected={compareMode.value}
          choose={(one) => {
            compareMode.value = one;
          }}
        />
      </header>
      <BendComparison
        key={shown.key}
        bentValue={shown}
        channel={shown === value ? channel : null}
        compareMode={compareMode.value}
        width={width}
      />
    </section>
  );
}

function BendComparison(props: {
  bentValue: Value;
  channel: number | null;
  compareMode: "beside" | "wipe" | "hold";
  width: number;
}) {
  const { bentValue, compareMode, width } = props;
  const { state, classNames, pixelRatio } = useViews();
  const known = useUneditedValue(bentValue);
  const a = known?.a ?? null;
  const difference = useMemo(
    () => differenceAsMaps(known?.difference ?? null),
    [known?.difference],
  );
  const [ofA, ofB] = [useStatistics(a), useStatistics(bentValue)];
  const ofDifference = useStatistics(difference);
  const flat = displayStyle(bentValue).drawMode === undefined;
  const [valuesA, valuesB] = [
    useExampleValues(flat ? a : null),
    useExampleValues(flat ? bentValue : null),
  ];
  const changed = useExampleValues(flat ? difference : null);
  const image = displayStyle(bentValue).isImage && !flat;
  const channel = flat || displayStyle(bentValue).isImage ? null : props.channel;
  const apart = state.rangeMode.value === "channel" ? channel : null;
  const both = ofA && ofB && sharedLimits(ofA, ofB, apart);
  const pictured = useSharedLimits(image ? bentValue : null, both);
  if (a === null) return <p class="nbg-second">…</p>;
  const limits = image ? pictured : both;
  const most = maxDifference(ofDifference, channel);
  const signed = most === null ? null : { low: -most, high: most };
  const columns = compareMode === "beside" ? 3 : 2;
  // One pixel less: the column width is not an integer.
  const side = Math.min(MAX_SIDE, Math.floor((width - 1 - (columns - 1) * GAP) / columns));
  const elementIndices =
    classNames.value(bentValue.key).length > 0 && valuesA && valuesB
      ? topIndicesOfEither(valuesA, valuesB)
      : shownElements(changed, bentValue.nchw[1], Math.floor(side / 3));
  const isClasses = displayStyle(bentValue).name === "classes"; // classes have no range
  const range = isClasses ? { mode: "fixed" as const } : fixedRange(limits);
  const picture = (of: Value) => (
    <BentValueView
      {...{ value: of, originalValue: bentValue, channel, side, limits, elementIndices }}
      range={range}
    />
  );
  const [shownA, shownB] = [picture(a), picture(bentValue)];
  const rangeOf = (of: Value) =>
    image && !isClasses ? <ImageRange value={of} rangeValue={bentValue} limits={limits} /> : null;
  const over = { a: shownA, b: shownB, titles: PICTURE_TITLES };
  const ranges = image && !isClasses && <RangePair a={rangeOf(a)} b={rangeOf(bentValue)} />;
  const one = difference && (
    <BentValueView
      value={difference}
      originalValue={bentValue}
      channel={channel}
      side={side}
      limits={signed}
      range={fixedRange(signed)}
      elementIndices={elementIndices}
      signed
    />
  );
  // The placeholder of a missing difference has the size of B's picture.
  const { drawMode, isImage: asImage } = displayStyle(bentValue);
  const single = asImage || channel !== null || bentValue.nchw[1] === 1;
  const { height: h, width: w } = channelPictureSize(bentValue);
  const scale = fitScale(Math.max(h, w), side * pixelRatio.value) / pixelRatio.value;
  const none =
    single && !flat && drawMode !== "curves"
      ? { width: px(w * scale), height: px(h * scale) }
      : { height: px(side) };
  const text = most === null && difference ? "" : most ? `±${formatShort(most)}` : "no difference";
  return (
    <div class="nbg-bend-comparison" data-showing={compareMode}>
      {compareMode === "beside" && (
        <>
          <LetteredFigure
            letter="A"
            title={PICTURE_TITLES[0]}
            side={side}
            rangeControl={rangeOf(a)}
          >
            {shownA}
          </LetteredFigure>
          <LetteredFigure
            letter="B"
            title={PICTURE_TITLES[1]}
            side={side}
            rangeControl={rangeOf(bentValue)}
            isBent
          >
            {shownB}
          </LetteredFigure>
        </>
      )}
      {compareMode === "wipe" && (
        <WipeView {...over} side={side}>
          {ranges}
        </WipeView>
      )}
      {compareMode === "hold" && <HoldView {...over}>{ranges}</HoldView>}
      <LetteredFigure letter="B − A" title={text} side={side}>
        {one ?? <span class="nbg-bend-none" style={none} />}
      </LetteredFigure>
    </div>
  );
}

/**
 * Show an image's difference as maps rather than as an image; with three channels it stays an image whose grey is zero.
 */
const differenceAsMaps = (value: Value | null): Value | null =>
  value === null || displayStyle(value).name === "rgb" ? value : { ...value, kind: "layer" };

/** The largest absolute difference of a channel or of all; null if unknown or not finite. */
function maxDifference(statistics: Statistics | null, channel: number | null): number | null {
  if (statistics === null) return null;
  const one = channel === null ? statistics.layer : statistics.channels[channel];
  const most = Math.max(-(one?.min ?? Number.NaN), one?.max ?? Number.NaN);
  return Number.isNaN(most) ? null : Math.max(0, most);
}

function LetteredFigure(props: {
  letter: string;
  title: string;
  side: number;
  isBent?: boolean;
  /** The range control of an image. */
  rangeControl?: ComponentChildren;
  children: ComponentChildren;
}) {
  const { letter, title, side, isBent = false, rangeControl, children } = props;
  return (
    <figure
      class={isBent ? "nbg-bend-figure nbg-bend-mine" : "nbg-bend-figure"}
      style={{ width: px(side) }}
      aria-label={`${letter} ${title}`}
    >
      {children}
      <figcaption>
        <strong>{letter}</strong> <span class="nbg-second">{title}</span>
        {rangeControl && <div class="nbg-second">{rangeControl}</div>}
      </figcaption>
    </figure>
  );
}

/** A value in the same display as other views; a difference in signed colours. */
function BentValueView(props: {
  value: Value;
  /** The original value that `value` is derived from. */
  originalValue: Value;
  /** The only channel to show; null for all. */
  channel: number | null;
  side: number;
  limits: ColorLimitsOrNull;
  range: ColorRange | undefined;
  elementIndices: readonly number[];
  signed?: boolean;
}) {
  const {
    value,
    originalValue,
    channel,
    side,
    limits,
    range,
    elementIndices,
    signed = false,
  } = props;
  const ratio = useViews().pixelRatio.value;
  const count = value.nchw[1];
  const display = displayStyle(originalValue);
  const label = value.key;
  if (display.drawMode === undefined) {
    return (
      <ComparedVector
        value={value}
        derivedFrom={originalValue}
        width={side}
        height={BARS_HEIGHT}
        limits={limits}
        elements={elementIndices}
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
    const shown = channel === null ? numbers.slice(0, MAX_CURVES) : [channel];
    const gap = Math.round(ratio);
    const height = Math.min(side / 2, (side - shown.length + 1) / shown.length);
    return (
      <Maps
        value={value}
        channels={shown}
        columns={1}
        scale={1}
        gap={gap}
        curveSize={{ width: side, height }}
        range={range}
        label={label}
        hasHairlines
      />
    );
  }
  const { height, width } = channelPictureSize(originalValue);
  const isWhole = display.isImage && !(signed && display.name !== "rgb");
  if (isWhole || channel !== null || count === 1) {
    const scale = fitScale(Math.max(height, width), side * ratio);
    return (
      <Maps
        value={value}
        channels={isWhole ? numbers : [channel ?? 0]}
        columns={1}
        scale={Math.min(1, scale)}
        zoom={Math.max(1, scale) / ratio}
        colorMap={map}
        range={range}
        isRgb={isWhole && display.name === "rgb" ? true : undefined}
        label={label}
        hasHairlines
      />
    );
  }
  const gap = Math.round(ratio);
  const room = { width: side * ratio, height: side * ratio };
  const mosaic = boxMosaic({ channels: count, height, width }, room, gap, Math.round(20 * ratio));
  return (
    <Maps
      value={value}
      channels={numbers.slice(0, mosaic.shownCount)}
      columns={mosaic.columns}
      scale={mosaic.scale}
      gap={gap}
      colorMap={map}
      range={range}
      label={label}
      hasHairlines
    />
  );
}
