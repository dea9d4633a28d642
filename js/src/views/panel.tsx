// What comments on the strip: the layer under the pointer or selected, its liveliest channels, its numbers.

import { percent, short } from "../format.ts";
import { contents, displayOf } from "../network/display.ts";
import { firstValue, longType, type Network } from "../network/network.ts";
import type { Statistics } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import { Bars, NumberPicture } from "./bars.tsx";
import { useHistogram, useStatistics, useViews } from "./context.ts";
import { Histogram } from "./histogram.tsx";
import { Right } from "./icons.tsx";
import { ImageRange } from "./image_range.tsx";
import { byVariation, isFlawed } from "./layout.ts";
import { Legend } from "./legend.tsx";
import { isSkipped } from "./measures.ts";
import { Classes } from "./overlay/classes.tsx";
import { InPython } from "./python.tsx";
import { TILE, Tile, tilesAcross } from "./tile.tsx";

/** The layer that is commented: under the pointer, else selected, else the first. */
function usePanelValue(network: Network): Value | undefined {
  const { state, pointed } = useViews();
  for (const name of [pointed.value, state.selected.value?.layer]) {
    const value = name ? network.values.get(name) : undefined;
    if (value !== undefined) return value;
  }
  return firstValue(network);
}

export function Panel({ network }: { network: Network }) {
  const { state, ratio, width } = useViews();
  const value = usePanelValue(network);
  const statistics = useStatistics(value ?? null);
  if (value === undefined) return null;
  const layer = network.layers.find((one) => one.name === value.key);
  const room = width.value - 2 * 24 - (width.value >= 760 ? 232 : 0);
  const most = Math.min(10, tilesAcross(value, ratio.value, room));
  const channels = value.nchw[1];
  const maps = displayOf(value).each;
  const shown = Math.min(most, channels);
  const flawed = statistics?.channels.some(isFlawed) ? ", those with NaN or infinity first" : "";
  const bars = displayOf(value).name === "bars" ? barsAcross(room) : channels;
  const which =
    maps && channels > shown
      ? ` · the ${shown} that vary most${flawed}`
      : channels > bars
        ? ` · the ${bars} largest`
        : "";
  const open = (): void => {
    state.selected.value = { layer: value.key, channel: null };
    state.tab.value = "layer";
  };
  const end = value.kind === "input" ? "Input" : "Output";
  const apart = network.pairs.get(value.key)?.difference === value.key ? "B − A" : end;
  const title = layer ? longType(layer) : apart;
  return (
    <section class="nbg-panel" aria-label={`About ${value.key}`}>
      <header>
        <div class="nbg-title">
          <strong>{value.key}</strong> <InPython layer={value.key} />
          <span class="nbg-second">
            {title} · {contents(value)}
            {which}
          </span>
        </div>
        <div class="nbg-tools">
          {maps && <Legend value={value} statistics={statistics} />}
          {displayOf(value).image && (
            <span class="nbg-second">
              <ImageRange value={value} />
            </span>
          )}
          {layer !== undefined && (
            <button type="button" class="nbg-button" onClick={open}>
              Open layer <Right />
            </button>
          )}
        </div>
      </header>
      <div class="nbg-about">
        {maps ? (
          <Liveliest value={value} statistics={statistics} shown={shown} />
        ) : (
          <WidePicture value={value} width={room} />
        )}
        <Summing value={value} statistics={statistics} />
      </div>
    </section>
  );
}

function Liveliest(props: { value: Value; statistics: Statistics | null; shown: number }) {
  const { value, statistics, shown } = props;
  const { state } = useViews();
  const order = statistics
    ? byVariation(statistics.channels)
    : Array.from({ length: value.nchw[1] }, (_, i) => i);
  return (
    <div class="nbg-tiles nbg-lively">
      {order.slice(0, shown).map((channel) => (
        <Tile
          key={channel}
          value={value}
          channel={channel}
          label={`Open channel ${channel} of ${value.key}`}
          choose={() => {
            state.selected.value = { layer: value.key, channel };
            state.tab.value = "layer";
          }}
        >
          <span>ch {channel}</span>
        </Tile>
      ))}
    </div>
  );
}

/** How many bars of a vector stand side by side. */
const barsAcross = (width: number): number => Math.floor(width / 6);

function WidePicture({ value, width }: { value: Value; width: number }) {
  const label = `${value.key}, ${contents(value)}`;
  const { name } = displayOf(value);
  if (name === "classes") {
    return <Classes value={value} side={Math.min(220, width)} />;
  }
  if (name !== "bars") {
    return <div class="nbg-lively">{name === "number" && <NumberPicture value={value} />}</div>;
  }
  const length = value.nchw[1];
  const most = Math.min(length, barsAcross(width));
  const wide = Math.min(width, most * 24);
  return (
    <div class="nbg-lively">
      <Bars value={value} width={wide} height={TILE} most={most} upright label={label} />
    </div>
  );
}

// A stage under the pointer for a moment is no reason to count more than this.
const MOST_COUNTED = 4e6;

/** How the layer's values are spread, and what sums them up. */
function Summing({ value, statistics }: { value: Value; statistics: Statistics | null }) {
  const { state } = useViews();
  const found = useHistogram(value.read.count <= MOST_COUNTED ? value : null, { bins: 44 });
  return (
    <div class="nbg-summing">
      <Histogram
        found={found}
        width={212}
        height={46}
        label={`Values of ${value.key}; bar height is the root of the count`}
      />
      {isSkipped(state.session.value, value.key) ? (
        <p class="nbg-numbers">This layer does not run while the latent is on.</p>
      ) : (
        <Numbers statistics={statistics} />
      )}
    </div>
  );
}

/** mean, zero, dead: what one wants to know at a glance. */
function Numbers({ statistics }: { statistics: Statistics | null }) {
  if (statistics === null) return <p class="nbg-numbers">…</p>;
  const { layer, channels } = statistics;
  const dead = channels.filter((one) => one.zeros === 1).length;
  const nan = channels.findIndex((one) => one.nan > 0);
  const first = nan < 0 ? channels.findIndex((one) => one.inf > 0) : nan;
  return (
    <p class="nbg-numbers">
      <span>
        mean <strong>{short(layer.mean)}</strong>
      </span>
      <span>
        zero <strong>{percent(layer.zeros)}</strong>
      </span>
      <span title="channels that are zero everywhere in this picture">
        dead <strong>{dead}</strong>
      </span>
      {layer.nan > 0 && (
        <span class="nbg-bad">
          NaN <strong>{layer.nan}</strong>
        </span>
      )}
      {layer.inf > 0 && (
        <span class="nbg-bad">
          Inf <strong>{layer.inf}</strong>
        </span>
      )}
      {first >= 0 && channels.length > 1 && (
        <span class="nbg-bad">
          first in <strong>channel {first}</strong>
        </span>
      )}
    </p>
  );
}
