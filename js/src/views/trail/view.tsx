// The way from a number back to what it is made of, one click a step: where one came from, and where one can go on.
import type { Chain } from "../../explain/chain.ts";
import type { Explanation } from "../../explain/explanation.ts";
import type { Origin } from "../../explain/origin.ts";
import { originsOf } from "../../explain/origins.ts";
import { exact, short } from "../../format.ts";
import { classText } from "../../network/classes.ts";
import { displayOf, frameOf } from "../../network/display.ts";
import type { Network } from "../../network/network.ts";
import type { Value } from "../../plan/schema.ts";
import { useImageValues } from "../bars.tsx";
import { useViews } from "../context.ts";
import { fitScale, px, rank } from "../layout.ts";
import { Maps } from "../maps.tsx";
import { goTo, stepsTo, usePlaces } from "./steps.ts";

/** The largest values of a vector that are offered beside the one that is explained. */
const LARGEST = 5;
/** CSS pixels of the picture at the way's end. */
const SIDE = 260;

interface Props {
  network: Network;
  value: Value;
  /** The number that is explained. */
  channel: number;
  y: number;
  x: number;
  /** How it came about; null where that isn't known, and of an input, where the way ends. */
  explained: { chain: Chain; found: Explanation; index: number } | null;
}

export function Trail(props: Props) {
  const { network, value, channel, y, x, explained } = props;
  const { state } = useViews();
  const { placeText } = usePlaces();
  const here = { channel, y, x };
  const steps = stepsTo(state, value, here);
  const before = steps.slice(0, -1);
  const origins = explained
    ? originsOf(network, explained.chain, explained.found, explained.index)
    : [];
  return (
    <div class="nbg-trail">
      {before.length > 0 && (
        <nav aria-label="The way here">
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
                      onClick={() => goTo(state, of, step, before.slice(0, k))}
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
      <Largest value={value} channel={channel} />
      {origins.length > 0 && (
        <Origins
          origins={origins}
          operands={["elementwise", "copied"].includes(explained?.found.made.kind ?? "")}
          go={(origin) => {
            goTo(state, origin.value, origin, steps);
          }}
        />
      )}
      {value.kind === "input" && <Given {...{ network, value, channel, y, x }} />}
    </div>
  );
}

/** The way's end: an input's pixel, which is given. */
export function End({ network, value }: { network: Network; value: Value }) {
  const { pixel, selected } = useViews().state;
  const [, channels, height, width] = value.nchw;
  const { y, x } = pixel.value ?? { y: 0, x: 0 };
  const channel = Math.min(selected.value?.channel ?? 0, channels - 1);
  const inside = y < height && x < width ? { y, x } : { y: 0, x: 0 };
  return (
    <div class="nbg-way-end">
      <Trail {...{ network, value, channel, ...inside }} explained={null} />
    </div>
  );
}

/** Of a vector the values that compete with the explained one. */
function Largest({ value, channel }: { value: Value; channel: number }) {
  const { state, names } = useViews();
  const [, channels, height, width] = value.nchw;
  const vector = channels > 1 && height * width === 1;
  const values = useImageValues(vector ? value : null);
  if (values === null) return null;
  const named = names.value(value.key);
  const order = rank(Array.from(values)).slice(0, LARGEST);
  return (
    <div class="nbg-ways" role="group" aria-label="The largest values">
      <span class="nbg-second">Largest</span>
      {order.map((one) => (
        <button
          type="button"
          key={one}
          class="nbg-way"
          aria-pressed={one === channel}
          title={classText(named, one)}
          onClick={() => {
            state.selected.value = { layer: value.key, channel: one };
          }}
        >
          <span class="nbg-way-name">{named[one] || one}</span>
          <strong>{short(values[one] ?? Number.NaN)}</strong>
        </button>
      ))}
    </div>
  );
}

/** What the number is made of most, each one click away. */
function Origins(props: {
  origins: readonly Origin[];
  /** They are all that there is, in their order. */
  operands: boolean;
  go: (to: Origin) => void;
}) {
  const { origins, operands, go } = props;
  const { placeText } = usePlaces();
  const words = (origin: Origin): string => {
    const { value, channel, of } = origin;
    if (of === "channel") return `${value.key}, all of channel ${channel}`;
    return of === "patch" ? `${value.key}, channel ${channel}’s patch` : placeText(value, origin);
  };
  return (
    <div class="nbg-ways" role="group" aria-label="Where it comes from">
      <span class="nbg-second">
        {origins.length === 1 ? "From" : operands ? "Operands" : "Counts most"}
      </span>
      {origins.map((origin, k) => (
        <button
          type="button"
          key={k}
          class="nbg-way"
          data-origin={origin.value.key}
          title={origin.of && `To ${placeText(origin.value, origin)}, which gives most of it`}
          onClick={() => go(origin)}
        >
          <span class="nbg-way-name">{words(origin)}</span>
          {!Number.isNaN(origin.amount) && (
            <strong title={exact(origin.amount)}>{short(origin.amount)}</strong>
          )}
        </button>
      ))}
    </div>
  );
}

/** The end of the way: the number in the input's picture. */
function Given(props: Pick<Props, "network" | "value" | "channel" | "y" | "x">) {
  const { value, channel, y, x } = props;
  const { ratio } = useViews();
  const { placeText } = usePlaces();
  const values = useImageValues(value);
  const [, channels, height, width] = value.nchw;
  const display = displayOf(value);
  const number = values?.[(channel * height + y) * width + x];
  const frame = frameOf(value);
  const scale = fitScale(Math.max(frame.height, frame.width), SIDE * ratio.value);
  const all = Array.from({ length: channels }, (_, k) => k);
  return (
    <figure class="nbg-given">
      <figcaption>
        {placeText(value, { channel, y, x })} {"= "}
        <strong>{number === undefined ? "…" : exact(number)}</strong>
      </figcaption>
      {display.drawn !== undefined && (
        <Maps
          value={value}
          channels={display.drawn === "rgb" ? all : [channel]}
          columns={1}
          scale={Math.min(1, scale)}
          zoom={Math.max(1, scale) / ratio.value}
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
