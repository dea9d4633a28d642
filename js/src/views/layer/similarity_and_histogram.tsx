// Below a layer's maps: the channels most similar to the selected one, and the distribution of all values.
import { useMemo } from "preact/hooks";
import { formatFixed, formatInteger, nonFiniteCountText } from "../../number_format.ts";
import type { Statistics } from "../../plan/runtime.ts";
import type { Value } from "../../plan/schema.ts";
import { useExampleValues } from "../bar_chart.tsx";
import { cosineSimilarities } from "../channel_similarity.ts";
import { ChannelTile, tilesPerRow } from "../channel_tile.tsx";
import { useHistogram, useViews } from "../context.ts";
import { Histogram } from "../histogram.tsx";
import { argsortDescending, hasNonFinite } from "../layout.ts";

interface Props {
  value: Value;
  width: number;
}

/**
 * The similarity of each channel's map to the map of `channel`, from −1 to 1; empty for null and for values too large
 * to read back.
 */
export function useChannelSimilarities(value: Value | null, channel: number): readonly number[] {
  const channels = value?.nchw[1] ?? 0;
  const values = useExampleValues(value);
  const buffer = values?.buffer;
  const start = values?.byteOffset;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new view of the same numbers is no news
  return useMemo(
    () => (values === null ? [] : cosineSimilarities(values, channels, channel)),
    [buffer, start, channels, channel],
  );
}

/** The channels whose maps have the highest cosine similarity to the selected channel's map. */
export function SimilarChannels(
  props: Props & { channel: number; similarities: readonly number[] },
) {
  const { value, channel, width, similarities } = props;
  const { pixelRatio, state } = useViews();
  const others = argsortDescending(similarities).filter(
    (one) => one !== channel && Number.isFinite(similarities[one]),
  );
  const shown = others.slice(0, tilesPerRow(value, pixelRatio.value, width));
  if (shown.length === 0) return null;
  return (
    <section class="nbg-block">
      <h3>
        Most similar to channel {channel}{" "}
        <span class="nbg-second">cosine similarity of the maps</span>
      </h3>
      <div class="nbg-tiles">
        {shown.map((one) => (
          <ChannelTile
            key={one}
            value={value}
            channel={one}
            label={`Similar to channel ${channel}: ${one}`}
            choose={() => {
              state.selected.value = { layer: value.key, channel: one };
            }}
          >
            <span class="nbg-cell-caption">
              <span>{one}</span>
              <span>{formatFixed(similarities[one] ?? 0, 2)}</span>
            </span>
          </ChannelTile>
        ))}
      </div>
    </section>
  );
}

/** A histogram of the whole layer, for the current example. */
export function LayerHistogram(props: Props & { statistics: Statistics | null }) {
  const { value, width, statistics } = props;
  const found = useHistogram(value, { bins: Math.max(20, Math.floor(width / 8)) });
  const [, channels, mapHeight, mapWidth] = value.nchw;
  const length = channels * mapHeight * mapWidth;
  if (found === null || length < 4) return null;
  return (
    <section class="nbg-block">
      <h3>
        All values of the layer{" "}
        <span class="nbg-second">
          {formatInteger(length)} values · bar height √count
          {found.zeros > 0 && " · grey is zero"}
        </span>
        {statistics !== null && hasNonFinite(statistics.layer) && (
          <span class="nbg-bad"> without {nonFiniteCountText(statistics.layer)}</span>
        )}
      </h3>
      <Histogram histogram={found} width={width} height={56} label={`All values of ${value.key}`} />
    </section>
  );
}
