// The middle of the Layer tab: a layer's channels in the form that suits them: maps and curves in a grid, a vector as
// bars.

import type { ComponentProps } from "preact";
import { contentsText, displayStyle } from "../../network/display_kind.ts";
import { displayedValue } from "../../network/network.ts";
import type { Value } from "../../plan/schema.ts";
import { BarChart, NumberPicture } from "../bar_chart.tsx";
import { ChannelGrid } from "../channel_grid.tsx";
import { useViews } from "../context.ts";
import { ImageRange } from "../image_range.tsx";
import { SegmentationView } from "../overlay/segmentation.tsx";
import { ValuePicture } from "../value_picture.tsx";
import { ElementRows } from "../value_views/element_rows.tsx";

/** CSS pixels: the height of a vector's bars, and the least width of each. */
const BARS_SIZE = { height: 120, least: 3 };
/** CSS pixels of the single picture that a layer's channels form. */
const PICTURE_SIZE = 200;

export function LayerChannels(props: ComponentProps<typeof ChannelGrid>) {
  const { value, channels, selectedChannel, width } = props;
  const network = useViews().network.value;
  const { name } = displayStyle(value);
  const length = value.nchw[1];
  if (value.shape.includes(0)) return null;
  if (name === "number") return <NumberPicture value={value} />;
  if (name === "bars") {
    const most = Math.min(length, Math.floor(width / BARS_SIZE.least));
    return (
      <>
        <BarChart
          value={value}
          width={width}
          height={BARS_SIZE.height}
          maxBars={most}
          upright
          label={`${value.key}, ${contentsText(value)}`}
        />
        <ElementRows value={value} channels={channels} selectedChannel={selectedChannel} />
      </>
    );
  }
  const pictured = network ? displayedValue(network, value) : value;
  const shown = displayStyle(pictured);
  return (
    <>
      {shown.name === "classes" && pictured !== value && (
        <SegmentationView value={pictured} side={Math.min(300, width)} />
      )}
      {shown.isImage && shown.name !== "classes" && (
        <ChannelsPicture value={pictured} side={Math.min(PICTURE_SIZE, width)} />
      )}
      <ChannelGrid {...props} />
    </>
  );
}

/**
 * The picture of an input or output whose channels are shown, with the same range as in the Network tab; the range can
 * be selected here too.
 */
function ChannelsPicture({ value, side }: { value: Value; side: number }) {
  const word = value.kind === "input" ? "The input" : "The output";
  return (
    <section class="nbg-block nbg-as-picture" data-layer={value.key}>
      <h3>
        {word} as a picture{" "}
        <span class="nbg-second">
          <ImageRange value={value} />
        </span>
      </h3>
      <ValuePicture value={value} width={side} height={side} minTileSide={20} />
    </section>
  );
}
