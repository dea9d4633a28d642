// Overlays a value's picture on the input's, both in the input's rectangle, with adjustable opacity.
import { type Signal, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { contentsText, displayStyle } from "../../network/display_kind.ts";
import type { Network } from "../../network/network.ts";
import type { Value } from "../../plan/schema.ts";
import type { ViewerState } from "../../state.ts";
import { useViews } from "../context.ts";
import { pictureSize, px, tileSide } from "../layout.ts";
import { Maps } from "../maps.tsx";

/** Blend settings of one Viewer, shared by all its views. */
interface BlendSettings {
  /** Show maps and classes over the input's picture. */
  readonly isOverlayShown: Signal<boolean>;
  /** Opacity of the overlay, in percent. */
  readonly opacity: Signal<number>;
}

const blendSettings = new WeakMap<ViewerState, BlendSettings>();

export function useBlendSettings(): BlendSettings {
  const { state } = useViews();
  const known = blendSettings.get(state) ?? { isOverlayShown: signal(false), opacity: signal(60) };
  blendSettings.set(state, known);
  return known;
}

/**
 * The input picture that a value can be laid over; in a comparison of two networks, the input of the value's own
 * network.
 */
export function backgroundInput(network: Network, value: Value): Value | undefined {
  const { name } = displayStyle(value);
  if (value.kind === "input" || (name !== "maps" && name !== "classes")) return undefined;
  const pictures = network.inputs.filter((one) => displayStyle(one).isImage);
  const own = value.key.startsWith("B.") ? pictures.find(({ key }) => key.startsWith("B.")) : null;
  return own ?? pictures[0];
}

/** CSS pixels of a picture of h×w scaled to fit a square. */
export function useFittedSize(value: Value, side: number) {
  const ratio = useViews().pixelRatio.value;
  const [, , h, w] = value.nchw;
  const { width, height } = pictureSize(h, w, { width: side * ratio, height: side * ratio });
  return { width: width / ratio, height: height / ratio };
}

/** Stacked pictures, in this order from bottom to top. */
export function Blend(props: {
  width: number;
  height: number;
  mode: "over" | "classes" | "input";
  children: ComponentChildren;
}) {
  const { width, height, mode, children } = props;
  const opacity = useBlendSettings().opacity.value / 100;
  const style = { width: px(width), height: px(height), "--nbg-over": opacity };
  return (
    <div class="nbg-blend" style={style} data-shown={mode}>
      {children}
    </div>
  );
}

/** Channels of a value as one picture of this width, whatever the value's resolution. */
export function BlendLayer(props: {
  value: Value;
  channels?: readonly number[];
  width: number;
  pickPixel?: (y: number, x: number) => void;
}) {
  const { value, width, channels, pickPixel } = props;
  const { pixelRatio } = useViews();
  const [, count, h, w] = value.nchw;
  const { scale } = pictureSize(h, w, {
    width: width * pixelRatio.value,
    height: Number.MAX_VALUE,
  });
  const drawn = Math.min(1, scale);
  const label =
    channels?.length === 1
      ? `channel ${channels[0]} of ${value.key}`
      : `${value.key}, ${contentsText(value)}`;
  return (
    <Maps
      value={value}
      channels={channels ?? Array.from({ length: count }, (_, k) => k)}
      columns={1}
      scale={drawn}
      zoom={width / tileSide(w, drawn)}
      label={label}
      showRank={pickPixel !== undefined}
      {...(pickPixel && { pickPixel })}
    />
  );
}

/** A slider for the overlay's opacity. */
export function OpacitySlider() {
  const { opacity } = useBlendSettings();
  return (
    <label class="nbg-labelled nbg-opacity">
      <span class="nbg-second">Opacity</span>
      <input
        type="range"
        min={0}
        max={100}
        value={opacity.value}
        aria-valuetext={`${opacity.value} %`}
        onInput={(event) => {
          opacity.value = event.currentTarget.valueAsNumber;
        }}
      />
    </label>
  );
}

/** The overlay's switch and opacity slider. */
export function BlendTools() {
  const { isOverlayShown } = useBlendSettings();
  return (
    <div class="nbg-blend-tools">
      <label class="nbg-labelled">
        <input
          type="checkbox"
          checked={isOverlayShown.value}
          onChange={(event) => {
            isOverlayShown.value = event.currentTarget.checked;
          }}
        />
        <span class="nbg-second">Over the picture</span>
      </label>
      {isOverlayShown.value && <OpacitySlider />}
    </div>
  );
}
