// One value in a given room: an image, maps, bars, or a number, whatever shows it best.

import { contents, displayOf, frameOf } from "../network/display.ts";
import type { Value } from "../plan/schema.ts";
import { NumberPicture, TallBars, TopValues } from "./bars.tsx";
import { MOST_LARGEST, useStatistics, useViews } from "./context.ts";
import { boxMosaic, byVariation, endRoom, type Mosaic, pictureSize } from "./layout.ts";
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
    : byVariation(statistics.channels).slice(0, shown);
}

/** Maps of a value in a mosaic that the strip's layout has chosen. */
export function StageMaps(props: { value: Value; mosaic: Mosaic; gap: number }) {
  const { value, mosaic, gap } = props;
  const channels = useShownChannels(value, mosaic.shown);
  const label = `${value.key}, ${contents(value)}`;
  return <MosaicMaps value={value} channels={channels} mosaic={mosaic} gap={gap} label={label} />;
}

/** CSS pixels that a value's picture may have of `side`: images at both ends of a network show how large they are. */
export function useEndSide(value: Value, side: number): number {
  const { network, ratio } = useViews();
  const now = network.value;
  if (now === null || !displayOf(value).image) return side;
  const images = [...now.inputs, ...now.outputs].filter((one) => displayOf(one).image);
  const sideOf = ({ nchw }: Value): number => Math.max(nchw[2], nchw[3]);
  const largest = Math.max(...images.map(sideOf));
  return endRoom(sideOf(value), largest, side * ratio.value) / ratio.value;
}

interface PictureProps {
  value: Value;
  /** CSS pixels that the picture may take. */
  width: number;
  height: number;
  /** CSS pixels a map is wide at least, where several stand in the box. */
  tile: number;
  /** The output of a classifier shows its largest values. */
  top?: boolean;
  /** A click on one of them asks why it is that. */
  explain?: ((channel: number) => void) | undefined;
}

/** CSS pixels of a row of `TopValues`, and of one with the name of its class. */
const TOP_ROW = 20;
/** So many curves stand one below the other in a box, as wide as it; more are a mosaic. */
const CURVES = 8;
const NAMED_ROW = 27;

/** How many of the largest values fit, and no more than are brought here, with a line for those that are left out. */
function topOf(length: number, height: number, row: number): number {
  const rows = Math.floor(height / row);
  const most = Math.min(MOST_LARGEST, rows);
  return length <= most ? length : Math.max(1, Math.min(MOST_LARGEST, rows - 1));
}

/** A value as a picture that fits the room. */
export function Picture(props: PictureProps) {
  const { value, width, height, tile, top = false, explain } = props;
  const { ratio: ratioOf, names } = useViews();
  const ratio = ratioOf.value;
  const display = displayOf(value);
  const [, channels, mapHeight, mapWidth] = value.nchw;
  const label = `${value.key}, ${contents(value)}`;
  if (display.name === "number") return <NumberPicture value={value} />;
  if (display.name === "bars") {
    if (top) {
      const row = names.value(value.key).length > 0 ? NAMED_ROW : TOP_ROW;
      const most = topOf(channels, height, row);
      return <TopValues value={value} most={most} width={width} explain={explain} />;
    }
    return <TallBars value={value} width={width} height={height} label={label} />;
  }
  const room = { width: width * ratio, height: height * ratio };
  const all = Array.from({ length: channels }, (_, i) => i);
  if (display.name === "curves" && channels <= CURVES) {
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
        lines
      />
    );
  }
  if (display.image || channels === 1) {
    const { scale } = pictureSize(mapHeight, mapWidth, room);
    // An enlarged picture is drawn at its own resolution and enlarged by the browser.
    return scale > 1 ? (
      <Maps value={value} channels={all} columns={1} scale={1} zoom={scale / ratio} label={label} />
    ) : (
      <Maps value={value} channels={all} columns={1} scale={scale} label={label} />
    );
  }
  const gap = Math.round(ratio);
  const maps = { channels, ...frameOf(value) };
  const mosaic = boxMosaic(maps, room, gap, Math.round(tile * ratio));
  return <StageMaps value={value} mosaic={mosaic} gap={gap} />;
}
