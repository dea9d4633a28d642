// The "Add a bend" section: every transform, with a preview on one channel of the layer.
import { useState } from "preact/hooks";
import {
  channelCountText,
  channelNoun,
  channelPictureSize,
  displayStyle,
} from "../../../network/display_kind.ts";
import type { Network } from "../../../network/network.ts";
import type { ColorRange, Statistics } from "../../../plan/runtime.ts";
import type { Value } from "../../../plan/schema.ts";
import { setEdits } from "../../../state/edits.ts";
import { imageIndex, useViews } from "../../../views/context.ts";
import { CodeIcon } from "../../../views/icons.tsx";
import { fitScale } from "../../../views/layout.ts";
import { Maps } from "../../../views/maps.tsx";
import { fixedRange, sharedLimits } from "../../compare/views/layer_pairs.ts";
import type { ChannelSelection } from "./channel_selection.ts";
import {
  acceptsChannels,
  makeBend,
  TRANSFORMS,
  toChannelList,
  transformText,
  transformTitle,
} from "./edit_operations.ts";
import { PythonLines } from "./python_lines.tsx";
import { usePreviews } from "./session_values.ts";

/** Side of a preview in CSS pixels. */
const PREVIEW_SIDE = 60;

export function AddBend(props: {
  network: Network;
  value: Value;
  statistics: Statistics | null;
  channel: number;
  selection: ChannelSelection;
}) {
  const { network, value, statistics, channel, selection } = props;
  const { state } = useViews();
  const [own, setOwn] = useState(false);
  const image = imageIndex(value, network, state.example.value);
  const count = value.nchw[1];
  const transforms = TRANSFORMS.filter(({ counts }) => acceptsChannels(counts, count));
  const asked = transforms.map((one) => makeBend([], value.key, one, null));
  const previews = usePreviews(value.key, channel, image, asked);
  const set = selection.bend === null ? selection.selected : new Set<number>();
  const flat = displayStyle(value).drawMode === undefined;
  // The range of the layer's own maps, so that the effect on the values is visible.
  const range = fixedRange(statistics && sharedLimits(statistics, statistics, null));
  const add = (index: number): void => {
    const transform = transforms[index];
    if (transform === undefined) return;
    const { edits } = state.currentEdits.peek();
    const channels = set.size === 0 ? null : toChannelList(set, count);
    setEdits(state, [...edits, makeBend(edits, value.key, transform, channels)]);
  };
  const target =
    set.size === 0 || set.size === count
      ? `all ${channelCountText(value)}`
      : channelCountText(value, set.size);
  return (
    <section class="nbg-bend-add" aria-label="Add a bend">
      <header class="nbg-bend-heading">
        <h3>
          Add a bend{" "}
          <span class="nbg-second">
            to {target}
            {!flat && ` · each transform applied to ${channelNoun(value)} ${channel} of this layer`}
          </span>
        </h3>
      </header>
      <div class="nbg-bend-tiles">
        {!flat && (
          <figure class="nbg-bend-tile" title="unchanged">
            <TransformPreview
              value={value}
              channel={channel}
              layerValue={value}
              label="unchanged"
              range={range}
            />
            <figcaption>none</figcaption>
          </figure>
        )}
        {transforms.map(({ name, says }, k) => (
          <button
            type="button"
            key={name}
            class="nbg-bend-tile"
            title={`${says}. Adds it to ${target}.`}
            aria-label={`Add ${transformText(name)}`}
            data-transform={name}
            onClick={() => add(k)}
          >
            {flat ? (
              <span class="nbg-bend-formula">{says.length > 12 ? transformTitle(name) : says}</span>
            ) : (
              <TransformPreview
                value={previews[k]}
                channel={0}
                layerValue={value}
                label={transformText(name)}
                range={range}
              />
            )}
            <span>{transformText(name)}</span>
          </button>
        ))}
        <button
          type="button"
          class="nbg-bend-tile"
          aria-expanded={own}
          title="your own transform, in Python"
          onClick={() => setOwn(!own)}
        >
          <span class="nbg-bend-picture">
            <CodeIcon />
          </span>
          <span>GLSL</span>
        </button>
      </div>
      {own && (
        <PythonLines
          title="Your own transform"
          lines={[
            "from nbglcnn import transforms",
            `viewer.bend(${JSON.stringify(value.key)}, transforms.glsl("y = sin(x * p0)", p0=3.0))`,
          ]}
        />
      )}
    </section>
  );
}

function TransformPreview(props: {
  value: Value | undefined;
  channel: number;
  /** The value that the channel belongs to. */
  layerValue: Value;
  label: string;
  range: ColorRange | undefined;
}) {
  const { value, channel, layerValue, label, range } = props;
  const ratio = useViews().pixelRatio.value;
  const { height, width } = channelPictureSize(layerValue);
  const scale = fitScale(Math.max(height, width), PREVIEW_SIDE * ratio);
  return (
    <span class="nbg-bend-picture">
      {value !== undefined && (
        <Maps
          value={value}
          channels={[channel]}
          columns={1}
          scale={Math.min(1, scale)}
          zoom={Math.max(1, scale) / ratio}
          isRgb={false}
          range={range}
          label={label}
          hidesMarks
        />
      )}
    </span>
  );
}
