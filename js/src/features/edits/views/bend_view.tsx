// The Bend section: select channels of a layer, apply transforms to them, and see the effect on the network.
import type { Network } from "../../../network/network.ts";
import type { Value } from "../../../plan/schema.ts";
import { useStatistics, useViews } from "../../../views/context.ts";
import { rankByVariation } from "../../../views/layout.ts";
import { AddBend } from "./add_bend.tsx";
import { BendList } from "./bend_list.tsx";
import { BendPictures } from "./bend_pictures.tsx";
import { ChannelPicker } from "./channel_picker.tsx";
import { useChannelSelection } from "./channel_selection.ts";
import { isBendable, notBendableText } from "./edit_operations.ts";
import { EditsAsPython } from "./python_lines.tsx";

/** CSS pixels around and between the two columns. */
const PADDING = 24;
const COLUMN_GAP = 28;
/** The width share of the channels in the two-column layout. */
const LEFT_COLUMN_FRACTION = 0.455;

export function BendView(props: { network: Network; value: Value }) {
  const { network, value } = props;
  const { width, state } = useViews();
  if (!isBendable(value)) return <NotBendable {...props} />;
  const narrow = width.value < 520;
  const room = width.value - 2 * (narrow ? 12 : PADDING) - 2; // minus its own border
  const beside = width.value >= 760;
  const left = beside ? Math.floor((room - COLUMN_GAP) * LEFT_COLUMN_FRACTION) : room;
  const right = beside ? room - COLUMN_GAP - left : room;
  return (
    <div class="nbg-bend" data-bends={state.currentEdits.value.edits.length}>
      <BendEditor
        key={value.key}
        network={network}
        value={value}
        leftWidth={left}
        rightWidth={right}
      />
      <EditsAsPython />
    </div>
  );
}

function BendEditor(props: {
  network: Network;
  value: Value;
  leftWidth: number;
  rightWidth: number;
}) {
  const { network, value, leftWidth, rightWidth } = props;
  const { state } = useViews();
  const statistics = useStatistics(value);
  const selection = useChannelSelection(value);
  const [first] = selection.selected;
  const [liveliest] = statistics === null ? [] : rankByVariation(statistics.channels);
  const channel = Math.min(
    state.selected.value?.channel ?? first ?? liveliest ?? 0,
    value.nchw[1] - 1,
  );
  return (
    <>
      <div class="nbg-bend-columns">
        <ChannelPicker
          {...{ value, statistics, selection }}
          currentChannel={channel}
          width={leftWidth}
        />
        <div class="nbg-bend-right">
          <BendPictures network={network} value={value} channel={channel} width={rightWidth} />
          <BendList value={value} />
        </div>
      </div>
      <AddBend {...{ network, value, statistics, channel, selection }} />
    </>
  );
}

/** Maximum number of layers suggested instead of one that cannot be bent. */
const MAX_SUGGESTIONS = 4;

function NotBendable({ network, value }: { network: Network; value: Value }) {
  const { state } = useViews();
  const reading = network.layers.filter(({ inputs }) => inputs.includes(value.key));
  const offered = [...reading, ...network.layers]
    .map(({ name }) => network.values.get(name))
    .filter((one) => one !== undefined && isBendable(one))
    .filter((one, i, all) => all.indexOf(one) === i)
    .slice(0, MAX_SUGGESTIONS);
  return (
    <div class="nbg-bend nbg-bend-refused">
      <p class="nbg-note">
        {notBendableText(value)}{" "}
        {offered.length > 0
          ? "Choose one of these layers:"
          : "No layer of this network can be bent."}
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
