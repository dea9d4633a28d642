// The Explain view: the computation of one pixel of a layer, with the values of the last run.

import { useEffect, useMemo } from "preact/hooks";
import { type AttentionLayers, findAttentionLayers } from "../../explain/attention.ts";
import {
  type ComputationChain,
  findComputationChain,
  type UnsupportedReason,
} from "../../explain/computation_chain.ts";
import { type Explanation, explain } from "../../explain/explanation.ts";
import type { Tensors } from "../../explain/tensor.ts";
import { isAdaptivePool } from "../../explain/window.ts";
import { layerText, type Network, type Stage } from "../../network/network.ts";
import { formatExact, formatInteger, formatShort } from "../../number_format.ts";
import type { Value } from "../../plan/schema.ts";
import type { Pixel } from "../../state.ts";
import { imageIndex, useTensors, useViews } from "../context.ts";
import { tokenPairText } from "../explain_trail/steps.ts";
import { ExplainTrailView } from "../explain_trail/view.tsx";
import { argsortDescending } from "../layout.ts";
import { NumberField } from "../number_field.tsx";
import { FieldPictures } from "../receptive_fields/view.tsx";
import { isReadable } from "../run_queries.ts";
import { Num } from "./number.tsx";
import { ExplanationPictures } from "./root_pictures.tsx";
import { WindowSlider } from "./window_slider.tsx";

export function ExplainView(props: { network: Network; value: Value; stage: Stage | undefined }) {
  const { network, value, stage } = props;
  const layer = network.layers.find((one) => one.name === value.key);
  const chain = useMemo(
    () =>
      stage && layer
        ? checkReadable(findComputationChain(network, stage, layer))
        : inputUnsupportedReason(value),
    [network, stage, layer, value],
  );
  return (
    <div class="nbg-explain">
      {"title" in chain ? (
        <UnsupportedNote reason={chain} network={network} value={value} />
      ) : (
        <ExplanationView key={value.key} network={network} value={value} chain={chain} />
      )}
    </div>
  );
}

const inputUnsupportedReason = (value: Value): UnsupportedReason => ({
  title: `${value.key} is an input`,
  text: "Inputs are not computed. Choose a layer.",
});

function checkReadable(
  chain: ComputationChain | UnsupportedReason,
): ComputationChain | UnsupportedReason {
  if ("title" in chain) return chain;
  const large = chain.requiredValues.find((value) => !isReadable(value));
  if (large === undefined) return chain;
  return {
    title: `${large.key} is too large to explain`,
    text: `It has ${formatInteger(large.readback.count)} values. To explain one value, the page reads all inputs and weights of its layer.`,
  };
}

/** The reason that this value cannot be explained; the trail that led here stays, so that the user can go back. */
function UnsupportedNote(props: { reason: UnsupportedReason; network: Network; value: Value }) {
  const { reason, network, value } = props;
  const { pixel, selected } = useViews().state;
  const [, channels, height, width] = value.nchw;
  const channel = Math.min(selected.value?.channel ?? 0, channels - 1);
  const { y = 0, x = 0 } = isPixelOf(value, pixel.value) ? pixel.value : {};
  const at = { y: Math.min(y, height - 1), x: Math.min(x, width - 1) };
  return (
    <>
      {/* An input has its own trail, with its picture. */}
      {value.kind !== "input" && (
        <ExplainTrailView {...{ network, value, channel, ...at }} explainedChain={null} />
      )}
      <div class="nbg-unknown" role="status">
        <strong>{reason.title}.</strong>
        <p class="nbg-second">{reason.text}</p>
      </div>
    </>
  );
}

/** Whether the selected pixel belongs to a value, or to one of the same size. */
const isPixelOf = ({ key, nchw }: Value, one: Pixel | null): one is Pixel =>
  one !== null && (one.layer === key || (one.mapHeight === nchw[2] && one.mapWidth === nchw[3]));

/** The explained pixel: the selected one, or else the position of the channel's largest absolute value. */
function useExplainedPixel(value: Value, tensors: Tensors | null, channelStart: number) {
  const { pixel } = useViews().state;
  const [, , mapHeight, mapWidth] = value.nchw;
  const chosen = pixel.value;
  const data = isPixelOf(value, chosen) ? null : (tensors?.get(value.key)?.data ?? null);
  useEffect(() => {
    if (data === null || isPixelOf(value, pixel.peek())) return; // selected meanwhile
    const at = argmaxAbs(data, channelStart, mapHeight * mapWidth);
    pixel.value = { mapHeight, mapWidth, y: Math.floor(at / mapWidth), x: at % mapWidth };
  });
  return isPixelOf(value, chosen) ? chosen : null;
}

function argmaxAbs(data: Float32Array, start: number, size: number): number {
  let best = 0;
  for (let i = 1; i < size; i++) {
    if (Math.abs(data[start + i] ?? 0) > Math.abs(data[start + best] ?? 0)) best = i;
  }
  return best;
}

function ExplanationView(props: { network: Network; value: Value; chain: ComputationChain }) {
  const { network, value, chain } = props;
  const views = useViews();
  const { state } = views;
  const attention = useMemo(() => {
    const layer = network.layers.find((one) => one.name === value.key);
    const found = layer ? findAttentionLayers(network, layer) : null;
    return found?.requiredValues.every(isReadable) ? found : null;
  }, [network, value]);
  const needed = useMemo(
    () => [...new Set([...chain.requiredValues, ...(attention?.requiredValues ?? [])])],
    [chain, attention],
  );
  const tensors = useTensors(needed);
  const [, channels, mapHeight, mapWidth] = value.nchw;
  const image = imageIndex(value, network, state.example.value);
  // For a vector, such as a classifier's output, the largest value until the user selects one.
  const vector = mapHeight * mapWidth === 1 ? tensors?.get(value.key)?.data : undefined;
  const [winner = 0] = argsortDescending([
    ...(vector?.slice(image * channels, (image + 1) * channels) ?? []),
  ]);
  const channel = Math.min(state.selected.value?.channel ?? winner, channels - 1);
  const start = (image * channels + channel) * mapHeight * mapWidth;
  const at = useExplainedPixel(value, tensors, start);
  const elementIndex = at === null ? null : start + at.y * mapWidth + at.x;
  const explanation = useMemo(
    () =>
      tensors === null || elementIndex === null
        ? null
        : explain(chain, value.key, tensors, elementIndex),
    [chain, value.key, tensors, elementIndex],
  );
  if (at === null || elementIndex === null || explanation === null || tensors === null)
    return <p class="nbg-note">…</p>;
  if ("title" in explanation)
    return <UnsupportedNote reason={explanation} network={network} value={value} />;
  const choose = (y: number, x: number): void => {
    state.pixel.value = { mapHeight, mapWidth, y, x };
  };
  const position = { channels, height: mapHeight, width: mapWidth, channel, y: at.y, x: at.x };
  const pair = tokenPairText(network, state.plan.value, value, position);
  const called = views.classNames.value(value.key)[channel];
  return (
    <>
      <header class="nbg-asked">
        <div>
          <h3 class="nbg-question">
            Why is {pair ? `${value.key}, ${pair}` : pixelText(value, position)}
            {called && ` (${called})`} = <Num value={explanation.gpuValue} />?
          </h3>
          <p class="nbg-second">{chainText(chain)}</p>
        </div>
        <PixelChooser
          {...{ value, position, choose }}
          lastAxisName={pair && value.shape.length > 3 ? lastAxisLabel(attention, value) : ""}
          slidingSubject={sliderSubject(chain)}
        />
      </header>
      <ExplainTrailView
        {...{ network, value, channel, ...at }}
        explainedChain={{ chain, explanation, elementIndex }}
      />
      <ExplanationPictures
        chain={chain}
        attention={attention}
        explanation={explanation}
        elementIndex={elementIndex}
        context={{
          result: { value, channel, ...at, choose },
          tensors,
          width: views.width.value - 50,
        }}
      />
      <RoundingNote explanation={explanation} />
      <FieldPictures network={network} value={value} y={at.y} x={at.x} />
    </>
  );
}

/** The chain as text, e.g. "encoder.0 Conv 4×4, 1→32, stride 2 → encoder.1 BN → encoder.2 ReLU". */
const chainText = ({ root, steps }: ComputationChain): string =>
  [...(root === null ? [] : [root]), ...steps.map(({ layer }) => layer)]
    .map((layer) => `${layer.name} ${layerText(layer)}`)
    .join(" → ");

interface PixelPosition {
  channels: number;
  height: number;
  width: number;
  channel: number;
  y: number;
  x: number;
}

/** The explained position, e.g. "encoder.2, channel 21, pixel y 10, x 8" or "decoder.0, value 3". */
function pixelText(
  value: Value,
  { channels, height, width, channel, y, x }: PixelPosition,
): string {
  if (height * width === 1) return channels === 1 ? value.key : `${value.key}, value ${channel}`;
  const pixel = height === 1 ? `x ${x}` : `pixel y ${y}, x ${x}`;
  return channels === 1 ? `${value.key}, ${pixel}` : `${value.key}, channel ${channel}, ${pixel}`;
}

const lastAxisLabel = (attention: AttentionLayers | null, { key }: Value): string =>
  attention?.output.name === key ? "Feature" : "Key";

const sliderSubject = (chain: ComputationChain): string | null => {
  const { root } = chain;
  if (root === null || (root.window.kernel.length === 0 && !isAdaptivePool(root))) return null;
  return root.explanation.endsWith("convolution") ? "filter" : "window";
};

/** Number fields for the position, and the slider that moves the window over the map. */
function PixelChooser(props: {
  value: Value;
  position: PixelPosition;
  choose: (y: number, x: number) => void;
  /** The name of the last axis if channels are heads and rows are query tokens; else "". */
  lastAxisName: string;
  slidingSubject: string | null;
}) {
  const { value, position, choose, lastAxisName, slidingSubject: what } = props;
  const { state } = useViews();
  const { channels, height, width, channel, y, x } = position;
  const toChannel = (to: number): void => {
    state.selected.value = { layer: value.key, channel: to };
  };
  return (
    <div class="nbg-tools">
      {channels > 1 && (
        <NumberField
          label={lastAxisName ? "Head" : height * width === 1 ? "Value" : "Channel"}
          low={0}
          high={channels - 1}
          value={channel}
          setValue={toChannel}
        />
      )}
      {height > 1 && (
        <NumberField
          label={lastAxisName ? "Query" : "y"}
          low={0}
          high={height - 1}
          value={y}
          setValue={(to) => choose(to, x)}
        />
      )}
      {width > 1 && (
        <NumberField
          label={lastAxisName || "x"}
          low={0}
          high={width - 1}
          value={x}
          setValue={(to) => choose(y, to)}
        />
      )}
      {what !== null && height * width > 1 && (
        <WindowSlider
          subject={what}
          position={y * width + x}
          positionText={height === 1 ? `x ${x}` : `y ${y}, x ${x}`}
          count={height * width}
          go={(to) => choose(Math.floor(to / width), to % width)}
        />
      )}
    </div>
  );
}

/** The GPU's value beside the sum of the displayed terms. */
function RoundingNote({ explanation: { computedValue, gpuValue } }: { explanation: Explanation }) {
  const { state } = useViews();
  const precision = state.plan.value?.precision ?? "float32";
  const apart = Math.abs(computedValue - gpuValue);
  const same =
    Object.is(computedValue, gpuValue) || Math.fround(computedValue) === gpuValue || !(apart > 0);
  const alike = formatExact(computedValue) === formatExact(gpuValue);
  return (
    <p
      class="nbg-second nbg-rounding"
      data-total={String(computedValue)}
      data-stored={String(gpuValue)}
    >
      {same && <>The GPU gives the same value, {formatExact(gpuValue)}.</>}
      {!same && alike && (
        <>
          The GPU gives {formatExact(gpuValue)}, equal in all digits shown; the difference of{" "}
          {formatShort(apart)} is rounding.
        </>
      )}
      {!same && !alike && (
        <>
          Sum in float64: {formatExact(computedValue)}. GPU in float32
          {precision === "float16" && ", stored in float16"}: {formatExact(gpuValue)}. Difference
          from rounding: {formatShort(apart)}.
        </>
      )}
    </p>
  );
}
