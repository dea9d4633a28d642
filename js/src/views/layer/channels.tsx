// In the middle of the Layer tab: a layer's channels in the way that suits it, maps and curves in a grid, a vector as bars.

import type { ComponentProps } from "preact";
import { contents, displayOf } from "../../network/display.ts";
import { Bars, NumberPicture } from "../bars.tsx";
import { useViews } from "../context.ts";
import { Grid } from "../grid.tsx";
import { Elements } from "../kinds/elements.tsx";
import { Classes } from "../overlay/classes.tsx";

/** CSS pixels of a vector's bars, and of each at least. */
const BARS = { height: 120, least: 3 };

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
  // The layer that makes the output is shown as the output is, besides its channels.
  const classes = network?.outputs.find(
    (one) => one.texture === value.texture && displayOf(one).name === "classes",
  );
  return (
    <>
      {classes !== undefined && <Classes value={classes} side={Math.min(300, width)} />}
      <Grid {...props} />
    </>
  );
}
