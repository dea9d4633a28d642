// A picture that can be laid over the input's: a channel of a layer, or the classes of a segmentation.
import type { ComponentChildren } from "preact";
import { drawKind } from "../../network/display_kind.ts";
import type { Value } from "../../plan/schema.ts";
import { useViews } from "../context.ts";
import {
  Blend,
  BlendLayer,
  BlendTools,
  backgroundInput,
  useBlendSettings,
  useFittedSize,
} from "./blend.tsx";

interface OverProps {
  value: Value;
  /** CSS pixels that the picture may be high and wide. */
  side: number;
  /** Of a layer, which has the switch below it; else all are one picture, and the switch is elsewhere. */
  channel?: number;
  /** The picture by itself. */
  children: ComponentChildren;
}

export function BlendedPicture(props: OverProps) {
  const network = useViews().network.value;
  const input = network ? backgroundInput(network, props.value) : undefined;
  if (input === undefined) return <>{props.children}</>;
  return <InputBlend {...props} input={input} />;
}

function InputBlend({ value, side, channel, children, input }: OverProps & { input: Value }) {
  const { state } = useViews();
  const { over } = useBlendSettings();
  const size = useFittedSize(input, side);
  const [, , height, width] = value.nchw;
  const pick = (y: number, x: number): void => {
    state.selected.value = { layer: value.key, channel: channel ?? null };
    state.pixel.value = { height, width, y, x };
    state.layerSection.value = "explain";
  };
  const one = channel !== undefined && !drawKind(value).isImage;
  const laid = (
    <Blend {...size} shown="over">
      <BlendLayer value={input} width={size.width} />
      {one ? (
        <BlendLayer value={value} channels={[channel]} width={size.width} pick={pick} />
      ) : (
        <BlendLayer value={value} width={size.width} />
      )}
    </Blend>
  );
  const shown = over.value ? laid : children;
  if (channel === undefined) return <>{shown}</>;
  return (
    <div class="nbg-blended">
      {shown}
      <BlendTools />
    </div>
  );
}
