// In the middle of the Layer tab: a layer's channels in the way that suits it, maps and curves in a grid, a vector as bars.

import type { ComponentProps } from "preact";
import { contents, displayOf } from "../../network/display.ts";
import { picturedAs } from "../../network/network.ts";
import type { Value } from "../../plan/schema.ts";
import { Bars, NumberPicture } from "../bars.tsx";
import { useViews } from "../context.ts";
import { Grid } from "../grid.tsx";
import { ImageRange } from "../image_range.tsx";
import { Elements } from "../kinds/elements.tsx";
import { Classes } from "../overlay/classes.tsx";
import { Picture } from "../picture.tsx";

/** CSS pixels of a vector's bars, and of each at least. */
const BARS = { height: 120, least: 3 };
/** CSS pixels of the picture that a layer's channels make. */
const PICTURE = 200;

export function Channels(props: ComponentProps<typeof Grid>) {
  const { value, channels, selected, width } = props;
  const network = useViews().network.value;
  const { name } = displayOf(value);
  const length = value.nchw[1];
  if (value.shape.includes(0)) return null;
  if (name === "number") return <NumberPicture value={value} />;
  if (name === "bars") {
    const most = Math.min(length, Math.floor(width / BARS.least));
    return (
      <>
        <Bars
          value={value}
          width={width}
          height={BARS.height}
          most={most}
          upright
          label={`${value.key}, ${contents(value)}`}
        />
        <Elements value={value} channels={channels} selected={selected} />
      </>
    );
  }
  const pictured = network ? picturedAs(network, value) : value;
  const shown = displayOf(pictured);
  return (
    <>
      {shown.name === "classes" && pictured !== value && (
        <Classes value={pictured} side={Math.min(300, width)} />
      )}
      {shown.image && shown.name !== "classes" && (
        <AsPicture value={pictured} side={Math.min(PICTURE, width)} />
      )}
      <Grid {...props} />
    </>
  );
}

/** The input or output that a layer's channels are, as in the Network tab: in its range, which is chosen here too. */
function AsPicture({ value, side }: { value: Value; side: number }) {
  const word = value.kind === "input" ? "The input" : "The output";
  return (
    <section class="nbg-block nbg-as-picture" data-layer={value.key}>
      <h3>
        {word} as a picture{" "}
        <span class="nbg-second">
          <ImageRange value={value} />
        </span>
      </h3>
      <Picture value={value} width={side} height={side} tile={20} />
    </section>
  );
}
