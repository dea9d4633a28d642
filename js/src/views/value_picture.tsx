// One value in a given space: as image, maps, bars or a number, depending on its kind.

import { channelPictureSize, contentsText, displayStyle } from "../network/display_kind.ts";
import type { Value } from "../plan/schema.ts";
import { BarColumn, NumberPicture, TopValues } from "./bar_chart.tsx";
import { MAX_TOP_VALUES, useStatistics, useViews } from "./context.ts";
import { boxMosaic, endpointSide, type Mosaic, pictureSize, rankByVariation } from "./layout.ts";
import { Maps, MosaicMaps } from "./maps.tsx";

/** Channels in the order of a mosaic: all by number, or the ones with the largest variance. */
export function useShownChannels(value: Value, shownCount: number): readonly number[] {
  const length = value.nchw[1];
  const some = shownCount < length;
  const statistics = useStatistics(some ? value : null);
  const all = Array.from({ length }, (_, i) => i);
  if (!some) return all;
  return statistics === null
    ? all.slice(0, shownCount)
    : rankByVariation(statistics.channels).slice(0, shownCount);
}

/** Maps of a value in the mosaic of the strip's layout. */
export function StageMaps(props: { value: Value; mosaic: Mosaic; gap: number }) {
  const { value, mosaic, gap } = props;
  const channels = useShownChannels(value, mosaic.shownCount);
  const label = `${value.key}, ${contentsText(value)}`;
  return <MosaicMaps value={value} channels={channels} mosaic={mosaic} gap={gap} label={label} />;
}

/**
 * The share of `side`, in CSS pixels, for a value's picture: input and output images are drawn in proportion to their
 * sizes.
 */
export function useEndpointSide(value: Value, side: number): number {
  const { network, pixelRatio } = useViews();
  const now = network.value;
  if (now === null || !displayStyle(value).isImage) return side;
  const images = [...now.inputs, ...now.outputs].filter((one) => displayStyle(one).isImage);
  const sideOf = ({ nchw }: Value): number => Math.max(nchw[2], nchw[3]);
  const largest = Math.max(...images.map(sideOf));
  return endpointSide(sideOf(value), largest, side * pixelRatio.value) / pixelRatio.value;
}

interface ValuePictureProps {
  value: Value;
  /** The most CSS pixels of the picture. */
  width: number;
  height: number;
  /** The least CSS pixels of a map's width, if several maps are in the box. */
  minTileSide: number;
  /** Show the largest values, for the output of a classifier. */
  showTopValues?: boolean;
  /** Called for a click on one of the largest values, to explain it. */
  explain?: ((channel: number) => void) | undefined;
}

/** CSS pixels of a row of `TopValues`, and of one with a class name. */
const TOP_VALUE_ROW_HEIGHT = 20;
/** Up to this many curves are stacked vertically at the box's full width; more are a mosaic. */
const MAX_STACKED_CURVES = 8;
const NAMED_VALUE_ROW_HEIGHT = 27;

/** The number of largest values that fit, limited to the number read back, with a line for the omitted ones. */
function fittingTopCount(length: number, height: number, rowHeight: number): number {
  const rows = Math.floor(height / rowHeight);
  const most = Math.min(MAX_TOP_VALUES, rows);
  return length <= most ? length : Math.max(1, Math.min(MAX_TOP_VALUES, rows - 1));
}

/** A value as a picture that fits `width` and `height`. */
export function ValuePicture(props: ValuePictureProps) {
  const { value, width, height, minTileSide, showTopValues = false, explain } = props;
  const { pixelRatio: ratioOf, classNames } = useViews();
  const ratio = ratioOf.value;
  const display = displayStyle(value);
  const [, channels, mapHeight, mapWidth] = value.nchw;
  const label = `${value.key}, ${contentsText(value)}`;
  if (display.name === "number") return <NumberPicture value={value} />;
  if (display.name === "bars") {
    if (showTopValues) {
      const row =
        classNames.value(value.key).length > 0 ? NAMED_VALUE_ROW_HEIGHT : TOP_VALUE_ROW_HEIGHT;
      const most = fittingTopCount(channels, height, row);
      return <TopValues value={value} maxRows={most} width={width} explain={explain} />;
    }
    return <BarColumn value={value} width={width} height={height} label={label} />;
  }
  const room = { width: width * ratio, height: height * ratio };
  const all = Array.from({ length: channels }, (_, i) => i);
  if (display.name === "curves" && channels <= MAX_STACKED_CURVES) {
    const each = Math.min((height - channels + 1) / channels, width / 2);
    const gap = Math.round(ratio);
    const cell = { width, height: each };
    return (
      <Maps
        value={value}
        channels={all}
        columns={1}
        scale={1}
        gap={gap}
        label={label}
        curveSize={cell}
        hasHairlines
      />
    );
  }
  if (display.isImage || channels === 1) {
    const { scale } = pictureSize(mapHeight, mapWidth, room);
    // An enlarged picture is drawn at its own resolution and enlarged by the browser.
    return scale > 1 ? (
      <Maps value={value} channels={all} columns={1} scale={1} zoom={scale / ratio} label={label} />
    ) : (
      <Maps value={value} channels={all} columns={1} scale={scale} label={label} />
    );
  }
  const gap = Math.round(ratio);
  const maps = { channels, ...channelPictureSize(value) };
  const mosaic = boxMosaic(maps, room, gap, Math.round(minTileSide * ratio));
  return <StageMaps value={value} mosaic={mosaic} gap={gap} />;
}
