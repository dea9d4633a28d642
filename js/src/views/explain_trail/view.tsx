// The Explain trail: from an element back to the elements that it is computed from, one click per step, with the steps
// already taken.
import type { ComputationChain } from "../../explain/computation_chain.ts";
import type { Explanation } from "../../explain/explanation.ts";
import { largestOrigins } from "../../explain/largest_origins.ts";
import type { Origin } from "../../explain/origin.ts";
import { classText } from "../../network/class_names.ts";
import { channelPictureSize, displayStyle } from "../../network/display_kind.ts";
import type { Network } from "../../network/network.ts";
import { formatExact, formatShort } from "../../number_format.ts";
import type { Value } from "../../plan/schema.ts";
import { useExampleValues } from "../bar_chart.tsx";
import { useViews } from "../context.ts";
import { argsortDescending, fitScale, px } from "../layout.ts";
import { Maps } from "../maps.tsx";
import { explainElement, trailTo, usePositionText } from "./steps.ts";

/** The number of largest values of a vector that are offered beside the explained one. */
const MAX_LARGEST_VALUES = 5;
/** CSS pixels of the input picture at the end of the trail. */
const PICTURE_SIDE = 260;

interface Props {
  network: Network;
  value: Value;
  /** The position of the explained element. */
  channel: number;
  y: number;
  x: number;
  /** The explanation; null if it is unknown, or for an input, where the trail ends. */
  explainedChain: {
    chain: ComputationChain;
    explanation: Explanation;
    elementIndex: number;
  } | null;
}

export function ExplainTrailView(props: Props) {
  const { network, value, channel, y, x, explainedChain } = props;
  const { state } = useViews();
  const { placeText } = usePositionText();
  const here = { channel, y, x };
  const steps = trailTo(state, value, here);
  const before = steps.slice(0, -1);
  const origins = explainedChain
    ? largestOrigins(
        network,
        explainedChain.chain,
        explainedChain.explanation,
        explainedChain.elementIndex,
      )
    : [];
  return (
    <div class="nbg-trail">
      {before.length > 0 && (
        <nav aria-label="Path to this value">
          <ol>
            {before.map((step, k) => {
              const of = network.values.get(step.layer);
              return (
                of && (
                  <li key={k}>
                    <button
                      type="button"
                      class="nbg-crumb"
                      title={placeText(of, step)}
                      onClick={() => explainElement(state, of, step, before.slice(0, k))}
                    >
                      {placeText(of, step)}
                    </button>
                  </li>
                )
              );
            })}
            <li aria-current="step">{placeText(value, here)}</li>
          </ol>
        </nav>
      )}
      <LargestValues value={value} channel={channel} />
      {origins.length > 0 && (
        <OriginLinks
          origins={origins}
          listsOperands={["elementwise", "copied"].includes(
            explainedChain?.explanation.computation.kind ?? "",
          )}
          go={(origin) => {
            explainElement(state, origin.value, origin, steps);
          }}
        />
      )}
      {value.kind === "input" && <InputPixel {...{ network, value, channel, y, x }} />}
    </div>
  );
}

/** The end of the trail: a pixel of the input, which has no explanation. */
export function InputTrail({ network, value }: { network: Network; value: Value }) {
  const { pixel, selected } = useViews().state;
  const [, channels, height, width] = value.nchw;
  const { y, x } = pixel.value ?? { y: 0, x: 0 };
  const channel = Math.min(selected.value?.channel ?? 0, channels - 1);
  const inside = y < height && x < width ? { y, x } : { y: 0, x: 0 };
  return (
    <div class="nbg-trail-end">
      <ExplainTrailView {...{ network, value, channel, ...inside }} explainedChain={null} />
    </div>
  );
}

/** For a vector, the largest values beside the explained one. */
function LargestValues({ value, channel }: { value: Value; channel: number }) {
  const { state, classNames } = useViews();
  const [, channels, height, width] = value.nchw;
  const vector = channels > 1 && height * width === 1;
  const values = useExampleValues(vector ? value : null);
  if (values === null) return null;
  const named = classNames.value(value.key);
  const order = argsortDescending(Array.from(values)).slice(0, MAX_LARGEST_VALUES);
  return (
    <div class="nbg-trail-links" role="group" aria-label="The largest values">
      <span class="nbg-second">Largest</span>
      {order.map((one) => (
        <button
          type="button"
          key={one}
          class="nbg-trail-link"
          aria-pressed={one === channel}
          title={classText(named, one)}
          onClick={() => {
            state.selected.value = { layer: value.key, channel: one };
          }}
        >
          <span class="nbg-trail-link-name">{named[one] || one}</span>
          <strong>{formatShort(values[one] ?? Number.NaN)}</strong>
        </button>
      ))}
    </div>
  );
}

/** Links to the elements that contribute most. */
function OriginLinks(props: {
  origins: readonly Origin[];
  /** The links are all operands, in order. */
  listsOperands: boolean;
  go: (to: Origin) => void;
}) {
  const { origins, listsOperands, go } = props;
  const { placeText } = usePositionText();
  const words = (origin: Origin): string => {
    const { value, channel, scope } = origin;
    if (scope === "channel") return `${value.key}, all of channel ${channel}`;
    return scope === "patch"
      ? `${value.key}, channel ${channel}’s patch`
      : placeText(value, origin);
  };
  return (
    <div class="nbg-trail-links" role="group" aria-label="Where it comes from">
      <span class="nbg-second">
        {origins.length === 1 ? "From" : listsOperands ? "Operands" : "Contributes most"}
      </span>
      {origins.map((origin, k) => (
        <button
          type="button"
          key={k}
          class="nbg-trail-link"
          data-origin={origin.value.key}
          title={origin.scope && `To ${placeText(origin.value, origin)}, the largest contribution`}
          onClick={() => go(origin)}
        >
          <span class="nbg-trail-link-name">{words(origin)}</span>
          {!Number.isNaN(origin.amount) && (
            <strong title={formatExact(origin.amount)}>{formatShort(origin.amount)}</strong>
          )}
        </button>
      ))}
    </div>
  );
}

/** The end of the trail: the element, marked in the input's picture. */
function InputPixel(props: Pick<Props, "network" | "value" | "channel" | "y" | "x">) {
  const { value, channel, y, x } = props;
  const { pixelRatio } = useViews();
  const { placeText } = usePositionText();
  const values = useExampleValues(value);
  const [, channels, height, width] = value.nchw;
  const display = displayStyle(value);
  const number = values?.[(channel * height + y) * width + x];
  const frame = channelPictureSize(value);
  const scale = fitScale(Math.max(frame.height, frame.width), PICTURE_SIDE * pixelRatio.value);
  const all = Array.from({ length: channels }, (_, k) => k);
  return (
    <figure class="nbg-given">
      <figcaption>
        {placeText(value, { channel, y, x })} {"= "}
        <strong>{number === undefined ? "…" : formatExact(number)}</strong>
      </figcaption>
      {display.drawMode !== undefined && (
        <Maps
          value={value}
          channels={display.drawMode === "rgb" ? all : [channel]}
          columns={1}
          scale={Math.min(1, scale)}
          zoom={Math.max(1, scale) / pixelRatio.value}
          label={`${value.key}, with the pixel at y ${y}, x ${x}`}
        >
          <span
            class="nbg-mark"
            style={{
              left: `${(x / width) * 100}%`,
              top: `${(y / height) * 100}%`,
              width: `max(${100 / width}%, ${px(3)})`,
              height: `max(${100 / height}%, ${px(3)})`,
            }}
          />
        </Maps>
      )}
    </figure>
  );
}
