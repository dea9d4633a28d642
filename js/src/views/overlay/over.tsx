// A picture that can be laid over the input's: a channel of a layer, or the classes of a segmentation.
import type { ComponentChildren } from "preact";
import { displayOf } from "../../network/display.ts";
import type { Value } from "../../plan/schema.ts";
import { useViews } from "../context.ts";
import { Filling, Laid, pictureUnder, Tools, useChosen, useFitting } from "./laid.tsx";

interface OverProps {
  value: Value;
  /** CSS pixels that the picture may be high and wide. */
  side: number;
  /** Of a layer, which has the switch below it; else all are one picture, and the switch is elsewhere. */
  channel?: number;
  /** The picture by itself. */
  children: ComponentChildren;
}

export function Over(props: OverProps) {
  const network = useViews().network.value;
  const input = network ? pictureUnder(network, props.value) : undefined;
  if (input === undefined) return <>{props.children}</>;
  return <OverPicture {...props} input={input} />;
}

function OverPicture({ value, side, channel, children, input }: OverProps & { input: Value }) {
  const { state } = useViews();
  const { over } = useChosen();
  const size = useFitting(input, side);
  const [, , height, width] = value.nchw;
  const pick = (y: number, x: number): void => {
    state.selected.value = { layer: value.key, channel: channel ?? null };
    state.pixel.value = { height, width, y, x };
    state.section.value = "explain";
  };
  const one = channel !== undefined && !displayOf(value).image;
  const laid = (
    <Laid {...size} shown="over">
      <Filling value={input} width={size.width} />
      {one ? (
        <Filling value={value} channels={[channel]} width={size.width} pick={pick} />
      ) : (
        <Filling value={value} width={size.width} />
      )}
    </Laid>
  );
  const shown = over.value ? laid : children;
  if (channel === undefined) return <>{shown}</>;
  return (
    <div class="nbg-overlaid">
      {shown}
      <Tools />
    </div>
  );
}
