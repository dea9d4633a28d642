// The Explain view: why one pixel of a layer has its value, in the numbers of the last run.

import { useEffect, useMemo } from "preact/hooks";
import { type Attention, attentionOf } from "../../explain/attention.ts";
import { type Chain, chainOf, type Unexplained } from "../../explain/chain.ts";
import { type Explanation, explain } from "../../explain/explanation.ts";
import type { Tensors } from "../../explain/tensor.ts";
import { isAdaptive } from "../../explain/window.ts";
import { exact, full, short } from "../../format.ts";
import { type Network, type Stage, said } from "../../network/network.ts";
import type { Value } from "../../plan/schema.ts";
import type { Pixel } from "../../state.ts";
import { imageOf, useTensors, useViews } from "../context.ts";
import { FieldPictures } from "../fields/view.tsx";
import { rank } from "../layout.ts";
import { isReadable } from "../measures.ts";
import { NumberField } from "../number_field.tsx";
import { pairText } from "../trail/steps.ts";
import { Trail } from "../trail/view.tsx";
import { Num } from "./number.tsx";
import { Pictures } from "./pictures.tsx";
import { Slide } from "./slide.tsx";

export function ExplainView(props: { network: Network; value: Value; stage: Stage | undefined }) {
  const { network, value, stage } = props;
  const layer = network.layers.find((one) => one.name === value.key);
  const chain = useMemo(
    () => (stage && layer ? readable(chainOf(network, stage, layer)) : given(value)),
    [network, stage, layer, value],
  );
  return (
    <div class="nbg-explain">
      {"title" in chain ? (
        <Unknown words={chain} network={network} value={value} />
      ) : (
        <Explained key={value.key} network={network} value={value} chain={chain} />
      )}
    </div>
  );
}

const given = (value: Value): Unexplained => ({
  title: `${value.key} is given, not computed`,
  text: "It is an input of the network. Choose a layer that computes something.",
});

function readable(chain: Chain | Unexplained): Chain | Unexplained {
  if ("title" in chain) return chain;
  const large = chain.needed.find((value) => !isReadable(value));
  if (large === undefined) return chain;
  return {
    title: `${large.key} is too large to be read here`,
    text: `It has ${full(large.read.count)} numbers, and all of a layer’s inputs and weights are needed to explain one of its values.`,
  };
}

/** Why there is nothing to be seen here; the way that led here is still there to go back. */
function Unknown(props: { words: Unexplained; network: Network; value: Value }) {
  const { words, network, value } = props;
  const { pixel, selected } = useViews().state;
  const [, channels, height, width] = value.nchw;
  const channel = Math.min(selected.value?.channel ?? 0, channels - 1);
  const { y = 0, x = 0 } = fits(value, pixel.value) ? pixel.value : {};
  const at = { y: Math.min(y, height - 1), x: Math.min(x, width - 1) };
  return (
    <>
      {/* An input has its own, with its picture. */}
      {value.kind !== "input" && <Trail {...{ network, value, channel, ...at }} explained={null} />}
      <div class="nbg-unknown" role="status">
        <strong>{words.title}.</strong>
        <p class="nbg-second">{words.text}</p>
      </div>
    </>
  );
}

/** Whether a pixel that was chosen is one of a value's. */
const fits = ({ key, nchw }: Value, one: Pixel | null): one is Pixel =>
  one !== null && (one.layer === key || (one.height === nchw[2] && one.width === nchw[3]));

/** The pixel that is explained: the one that was chosen, or else where the channel's largest value is. */
function usePixel(value: Value, tensors: Tensors | null, start: number) {
  const { pixel } = useViews().state;
  const [, , height, width] = value.nchw;
  const chosen = pixel.value;
  const data = fits(value, chosen) ? null : (tensors?.get(value.key)?.data ?? null);
  useEffect(() => {
    if (data === null || fits(value, pixel.peek())) return; // somebody may have chosen since
    const at = largestAt(data, start, height * width);
    pixel.value = { height, width, y: Math.floor(at / width), x: at % width };
  });
  return fits(value, chosen) ? chosen : null;
}

function largestAt(data: Float32Array, start: number, size: number): number {
  let best = 0;
  for (let i = 1; i < size; i++) {
    if (Math.abs(data[start + i] ?? 0) > Math.abs(data[start + best] ?? 0)) best = i;
  }
  return best;
}

function Explained(props: { network: Network; value: Value; chain: Chain }) {
  const { network, value, chain } = props;
  const views = useViews();
  const { state } = views;
  const attention = useMemo(() => {
    const layer = network.layers.find((one) => one.name === value.key);
    const found = layer ? attentionOf(network, layer) : null;
    return found?.needed.every(isReadable) ? found : null;
  }, [network, value]);
  const needed = useMemo(
    () => [...new Set([...chain.needed, ...(attention?.needed ?? [])])],
    [chain, attention],
  );
  const tensors = useTensors(needed);
  const [, channels, height, width] = value.nchw;
  const image = imageOf(value, network, state.example.value);
  // Of a vector, as a classifier gives, the largest until one is chosen.
  const vector = height * width === 1 ? tensors?.get(value.key)?.data : undefined;
  const [winner = 0] = rank([...(vector?.slice(image * channels, (image + 1) * channels) ?? [])]);
  const channel = Math.min(state.selected.value?.channel ?? winner, channels - 1);
  const start = (image * channels + channel) * height * width;
  const at = usePixel(value, tensors, start);
  const index = at === null ? null : start + at.y * width + at.x;
  const found = useMemo(
    () => (tensors === null || index === null ? null : explain(chain, value.key, tensors, index)),
    [chain, value.key, tensors, index],
  );
  if (at === null || index === null || found === null || tensors === null)
    return <p class="nbg-note">…</p>;
  if ("title" in found) return <Unknown words={found} network={network} value={value} />;
  const choose = (y: number, x: number): void => {
    state.pixel.value = { height, width, y, x };
  };
  const place = { channels, height, width, channel, y: at.y, x: at.x };
  const pair = pairText(network, state.plan.value, value, place);
  const called = views.names.value(value.key)[channel];
  return (
    <>
      <header class="nbg-asked">
        <div>
          <h3 class="nbg-question">
            Why is {pair ? `${value.key}, ${pair}` : placeName(value, place)}
            {called && ` (${called})`} = <Num value={found.stored} />?
          </h3>
          <p class="nbg-second">{madeBy(chain)}</p>
        </div>
        <Chooser
          {...{ value, place, choose }}
          last={pair && value.shape.length > 3 ? lastOf(attention, value) : ""}
          slides={slides(chain)}
        />
      </header>
      <Trail {...{ network, value, channel, ...at }} explained={{ chain, found, index }} />
      <Pictures
        chain={chain}
        attention={attention}
        found={found}
        index={index}
        drawn={{
          result: { value, channel, ...at, choose },
          tensors,
          width: views.width.value - 50,
        }}
      />
      <Rounding found={found} />
      <FieldPictures network={network} value={value} y={at.y} x={at.x} />
    </>
  );
}

/** "encoder.0 Conv 4×4, 1→32, stride 2 → encoder.1 BN → encoder.2 ReLU". */
const madeBy = ({ root, steps }: Chain): string =>
  [...(root === null ? [] : [root]), ...steps.map(({ layer }) => layer)]
    .map((layer) => `${layer.name} ${said(layer)}`)
    .join(" → ");

interface Where {
  channels: number;
  height: number;
  width: number;
  channel: number;
  y: number;
  x: number;
}

/** "encoder.2, channel 21, pixel y 10, x 8"; "decoder.0, value 3". */
function placeName(value: Value, { channels, height, width, channel, y, x }: Where): string {
  if (height * width === 1) return channels === 1 ? value.key : `${value.key}, value ${channel}`;
  const pixel = height === 1 ? `x ${x}` : `pixel y ${y}, x ${x}`;
  return channels === 1 ? `${value.key}, ${pixel}` : `${value.key}, channel ${channel}, ${pixel}`;
}

const lastOf = (attention: Attention | null, { key }: Value): string =>
  attention?.mix.name === key ? "Feature" : "Key";

const slides = (chain: Chain): string | null => {
  const { root } = chain;
  if (root === null || (root.window.kernel.length === 0 && !isAdaptive(root))) return null;
  return root.explains.endsWith("convolution") ? "filter" : "window";
};

/** Numbers to type a place, and the window's way over the map. */
function Chooser(props: {
  value: Value;
  place: Where;
  choose: (y: number, x: number) => void;
  /** What stands along the last axis where channels are heads, and rows the tokens of queries; else "". */
  last: string;
  slides: string | null;
}) {
  const { value, place, choose, last, slides: what } = props;
  const { state } = useViews();
  const { channels, height, width, channel, y, x } = place;
  const toChannel = (to: number): void => {
    state.selected.value = { layer: value.key, channel: to };
  };
  return (
    <div class="nbg-tools">
      {channels > 1 && (
        <NumberField
          label={last ? "Head" : height * width === 1 ? "Value" : "Channel"}
          low={0}
          high={channels - 1}
          value={channel}
          set={toChannel}
        />
      )}
      {height > 1 && (
        <NumberField
          label={last ? "Query" : "y"}
          low={0}
          high={height - 1}
          value={y}
          set={(to) => choose(to, x)}
        />
      )}
      {width > 1 && (
        <NumberField
          label={last || "x"}
          low={0}
          high={width - 1}
          value={x}
          set={(to) => choose(y, to)}
        />
      )}
      {what !== null && height * width > 1 && (
        <Slide
          what={what}
          position={y * width + x}
          words={height === 1 ? `x ${x}` : `y ${y}, x ${x}`}
          count={height * width}
          go={(to) => choose(Math.floor(to / width), to % width)}
        />
      )}
    </div>
  );
}

/** The GPU's number beside the one that the shown terms add up to. */
function Rounding({ found: { total, stored } }: { found: Explanation }) {
  const { state } = useViews();
  const precision = state.plan.value?.precision ?? "float32";
  const apart = Math.abs(total - stored);
  const same = Object.is(total, stored) || Math.fround(total) === stored || !(apart > 0);
  const alike = exact(total) === exact(stored);
  return (
    <p class="nbg-second nbg-rounding" data-total={String(total)} data-stored={String(stored)}>
      {same && <>The GPU has the same number, {exact(stored)}.</>}
      {!same && alike && (
        <>
          The GPU has the same number in all these digits, {exact(stored)}; rounding makes them{" "}
          {short(apart)} apart.
        </>
      )}
      {!same && !alike && (
        <>
          Added up here in double precision it is {exact(total)}; the GPU, which computes in float32
          {precision === "float16" && " and stores in float16"}, has {exact(stored)}: {short(apart)}{" "}
          apart, by rounding.
        </>
      )}
    </p>
  );
}
