// One value in a given room: an image, maps, bars, or a number, whatever shows it best.

import { contentsText, drawKind, pictureFrame } from "../network/display_kind.ts";
import type { Value } from "../plan/schema.ts";
import { BarColumn, NumberPicture, TopValues } from "./bar_chart.tsx";
import { MAX_TOP_VALUES, useStatistics, useViews } from "./context.ts";
import { boxMosaic, endpointSide, type Mosaic, pictureSize, rankByVariation } from "./layout.ts";
import { Maps, MosaicMaps } from "./maps.tsx";

/** Channels in the order in which a mosaic shows them: all by number, or the ones that vary most. */
export function useShownChannels(value: Value, shown: number): readonly number[] {
  const length = value.nchw[1];
  const some = shown < length;
  const statistics = useStatistics(some ? value : null);
  const all = Array.from({ length }, (_, i) => i);
  if (!some) return all;
  return statistics === null
    ? all.slice(0, shown)
    : rankByVariation(statistics.channels).slice(0, shown);
}

/** Maps of a value in a mosaic that the strip's layout has chosen. */
export function StageMaps(props: { value: Value; mosaic: Mosaic; gap: number }) {
  const { value, mosaic, gap } = props;
  const channels = useShownChannels(value, mosaic.shownCount);
  const label = `${value.key}, ${contentsText(value)}`;
  return <MosaicMaps value={value} channels={channels} mosaic={mosaic} gap={gap} label={label} />;
}

/** CSS pixels that a value's picture may have of `side`: images at both ends of a network show how large they are. */
export function useEndpointSide(value: Value, side: number): number {
  const { network, pixelRatio } = useViews();
  const now = network.value;
  if (now === null || !drawKind(value).isImage) return side;
  const images = [...now.inputs, ...now.outputs].filter((one) => drawKind(one).isImage);
  const sideOf = ({ nchw }: Value): number => Math.max(nchw[2], nchw[3]);
  const largest = Math.max(...images.map(sideOf));
  return endpointSide(sideOf(value), largest, side * pixelRatio.value) / pixelRatio.value;
}

interface PictureProps {
  value: Value;
  /** CSS pixels that the picture may take. */
  width: number;
  height: number;
  /** CSS pixels a map is wide at least, where several stand in the box. */
  minTile: number;
  /** The output of a classifier shows its largest values. */
  showTopValues?: boolean;
  /** A click on one of them asks why it is that. */
  explain?: ((channel: number) => void) | undefined;
}

/** CSS pixels of a row of `TopValues`, and of one with the name of its class. */
const TOP_ROW = 20;
/** So many curves stand one below the other in a box, as wide as it; more are a mosaic. */
const MAX_CURVES = 8;
const NAMED_ROW = 27;

/** How many of the largest values fit, and no more than are brought here, with a line for those that are left out. */
function topCount(length: number, height: number, row: number): number {
  const rows = Math.floor(height / row);
  const most = Math.min(MAX_TOP_VALUES, rows);
  return length <= most ? length : Math.max(1, Math.min(MAX_TOP_VALUES, rows - 1));
}

/** A value as a picture that fits the room. */
export function ValuePicture(props: PictureProps) {
  const { value, width, height, minTile, showTopValues = false, explain } = props;
  const { pixelRatio: ratioOf, classNames } = useViews();
  const ratio = ratioOf.value;
  const display = drawKind(value);
  const [, channels, mapHeight, mapWidth] = value.nchw;
  const label = `${value.key}, ${contentsText(value)}`;
  if (display.name === "number") return <NumberPicture value={value} />;
  if (display.name === "bars") {
    if (showTopValues) {
      const row = classNames.value(value.key).length > 0 ? NAMED_ROW : TOP_ROW;
      const most = topCount(channels, height, row);
      return <TopValues value={value} maxRows={most} width={width} explain={explain} />;
    }
    return <BarColumn value={value} width={width} height={height} label={label} />;
  }
  const room = { width: width * ratio, height: height * ratio };
  const all = Array.from({ length: channels }, (_, i) => i);
  if (display.name === "curves" && channels <= MAX_CURVES) {
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
        cell={cell}
        hairlines
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
  const maps = { channels, ...pictureFrame(value) };
  const mosaic = boxMosaic(maps, room, gap, Math.round(minTile * ratio));
  return <StageMaps value={value} mosaic={mosaic} gap={gap} />;
}
