// Bend: pick channels of a layer, put transforms on them, and see what the network makes of it.
import type { Network } from "../../../network/network.ts";
import type { Value } from "../../../plan/schema.ts";
import { useStatistics, useViews } from "../../../views/context.ts";
import { byVariation } from "../../../views/layout.ts";
import { AddBend } from "./add.tsx";
import { ChannelPicker } from "./channels.tsx";
import { StackList } from "./list.tsx";
import { usePicks } from "./picks.ts";
import { Pictures } from "./pictures.tsx";
import { AsPython } from "./python.tsx";
import { isBendable, whyNot } from "./stack.ts";

/** CSS pixels around the two columns, and between them. */
const PAD = 24;
const GAP = 28;
/** The share of the width that the channels have, where both stand side by side. */
const LEFT = 0.455;

export function BendView(props: { network: Network; value: Value }) {
  const { network, value } = props;
  const { width, state } = useViews();
  if (!isBendable(value)) return <Refused {...props} />;
  const narrow = width.value < 520;
  const room = width.value - 2 * (narrow ? 12 : PAD) - 2; // its own border
  const beside = width.value >= 760;
  const left = beside ? Math.floor((room - GAP) * LEFT) : room;
  const right = beside ? room - GAP - left : room;
  return (
    <div class="nbg-bend" data-bends={state.edited.value.edits.length}>
      <Bending key={value.key} network={network} value={value} left={left} right={right} />
      <AsPython />
    </div>
  );
}

function Bending(props: { network: Network; value: Value; left: number; right: number }) {
  const { network, value, left, right } = props;
  const { state } = useViews();
  const statistics = useStatistics(value);
  const picks = usePicks(value);
  const [first] = picks.picked;
  const [liveliest] = statistics === null ? [] : byVariation(statistics.channels);
  const channel = Math.min(
    state.selected.value?.channel ?? first ?? liveliest ?? 0,
    value.nchw[1] - 1,
  );
  return (
    <>
      <div class="nbg-bend-columns">
        <ChannelPicker {...{ value, statistics, picks }} current={channel} width={left} />
        <div class="nbg-bend-right">
          <Pictures network={network} value={value} channel={channel} width={right} />
          <StackList value={value} />
        </div>
      </div>
      <AddBend {...{ network, value, statistics, channel, picks }} />
    </>
  );
}

/** So many layers are offered in the place of one that cannot be bent. */
const OFFERED = 4;

function Refused({ network, value }: { network: Network; value: Value }) {
  const { state } = useViews();
  const reading = network.layers.filter(({ inputs }) => inputs.includes(value.key));
  const offered = [...reading, ...network.layers]
    .map(({ name }) => network.values.get(name))
    .filter((one) => one !== undefined && isBendable(one))
    .filter((one, i, all) => all.indexOf(one) === i)
    .slice(0, OFFERED);
  return (
    <div class="nbg-bend nbg-bend-refused">
      <p class="nbg-note">
        {whyNot(value)} {offered.length > 0 ? "These can be:" : "No layer of this network can."}
      </p>
      <p class="nbg-bend-others">
        {offered.map(
          (one) =>
            one && (
              <button
                type="button"
                key={one.key}
                class="nbg-underlined"
                onClick={() => {
                  state.selected.value = { layer: one.key, channel: null };
                }}
              >
                {one.key}
              </button>
            ),
        )}
      </p>
    </div>
  );
}
