// A picture that can be overlaid on the input's: a channel of a layer, or the classes of a segmentation.
import type { ComponentChildren } from "preact";
import { displayStyle } from "../../network/display_kind.ts";
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

interface BlendedPictureProps {
  value: Value;
  /** The most CSS pixels of the picture's height and width. */
  side: number;
  /**
   * The channel of a layer, with the overlay's switch below it; without a channel, all channels are one picture and the
   * switch is elsewhere.
   */
  channel?: number;
  /** The picture without the overlay. */
  children: ComponentChildren;
}

export function BlendedPicture(props: BlendedPictureProps) {
  const network = useViews().network.value;
  const input = network ? backgroundInput(network, props.value) : undefined;
  if (input === undefined) return <>{props.children}</>;
  return <InputBlend {...props} input={input} />;
}

function InputBlend({
  value,
  side,
  channel,
  children,
  input,
}: BlendedPictureProps & { input: Value }) {
  const { state } = useViews();
  const { isOverlayShown } = useBlendSettings();
  const size = useFittedSize(input, side);
  const [, , mapHeight, mapWidth] = value.nchw;
  const pick = (y: number, x: number): void => {
    state.selected.value = { layer: value.key, channel: channel ?? null };
    state.pixel.value = { mapHeight, mapWidth, y, x };
    state.layerSection.value = "explain";
  };
  const one = channel !== undefined && !displayStyle(value).isImage;
  const laid = (
    <Blend {...size} mode="over">
      <BlendLayer value={input} width={size.width} />
      {one ? (
        <BlendLayer value={value} channels={[channel]} width={size.width} pickPixel={pick} />
      ) : (
        <BlendLayer value={value} width={size.width} />
      )}
    </Blend>
  );
  const shown = isOverlayShown.value ? laid : children;
  if (channel === undefined) return <>{shown}</>;
  return (
    <div class="nbg-blended">
      {shown}
      <BlendTools />
    </div>
  );
}
