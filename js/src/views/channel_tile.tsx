// A channel as a button: its map at thumbnail size, with a caption.
import type { ComponentChildren } from "preact";
import { channelPictureSize } from "../network/display_kind.ts";
import type { Value } from "../plan/schema.ts";
import { useViews } from "./context.ts";
import { fitScale, px, tileSide } from "./layout.ts";
import { Maps } from "./maps.tsx";

/** CSS pixels; 84 = 3 × 28 = 6 × 14 = 12 × 7. */
export const TILE_SIDE = 84;
export const TILE_GAP = 8;

const tileScale = (value: Value, pixelRatio: number): number => {
  const { height, width } = channelPictureSize(value);
  return fitScale(Math.max(height, width), TILE_SIDE * pixelRatio);
};

/** CSS pixels of a channel's tile: its map at the largest whole-number scale, with room for the caption. */
export const tileWidth = (value: Value, pixelRatio: number): number =>
  Math.max(
    44,
    tileSide(channelPictureSize(value).width, tileScale(value, pixelRatio)) / pixelRatio,
  );

/** The number of tiles of a value that fit side by side. */
export const tilesPerRow = (value: Value, pixelRatio: number, availableWidth: number): number =>
  Math.max(1, Math.floor((availableWidth + TILE_GAP) / (tileWidth(value, pixelRatio) + TILE_GAP)));

export function ChannelTile(props: {
  value: Value;
  channel: number;
  label: string;
  choose: () => void;
  children: ComponentChildren;
}) {
  const { value, channel, label, choose, children } = props;
  const ratio = useViews().pixelRatio.value;
  const scale = tileScale(value, ratio);
  return (
    <button
      type="button"
      class="nbg-tile"
      style={{ width: px(tileWidth(value, ratio)) }}
      aria-label={label}
      onClick={choose}
    >
      {/* Drawn at its own resolution, enlarged by the browser. */}
      <Maps
        value={value}
        channels={[channel]}
        columns={1}
        scale={Math.min(1, scale)}
        zoom={Math.max(1, scale) / ratio}
        label={`channel ${channel}`}
      />
      {children}
    </button>
  );
}
