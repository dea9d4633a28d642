// A value's picture over the input's, both in the input's rectangle; how much of each is to be seen.
import { type Signal, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { contentsText, drawKind } from "../../network/display_kind.ts";
import type { Network } from "../../network/network.ts";
import type { Value } from "../../plan/schema.ts";
import type { ViewerState } from "../../state.ts";
import { useViews } from "../context.ts";
import { pictureSize, px, tileSide } from "../layout.ts";
import { Maps } from "../maps.tsx";

/** What is chosen in one Viewer, for all of its views. */
interface BlendSettings {
  /** Maps and classes are shown over the picture. */
  readonly over: Signal<boolean>;
  /** How much of what lies above is seen, in percent. */
  readonly opacity: Signal<number>;
}

const blendSettings = new WeakMap<ViewerState, BlendSettings>();

export function useBlendSettings(): BlendSettings {
  const { state } = useViews();
  const known = blendSettings.get(state) ?? { over: signal(false), opacity: signal(60) };
  blendSettings.set(state, known);
  return known;
}

/** The input's picture that a value can lie over; of two networks that of the value's own. */
export function backgroundInput(network: Network, value: Value): Value | undefined {
  const { name } = drawKind(value);
  if (value.kind === "input" || (name !== "maps" && name !== "classes")) return undefined;
  const pictures = network.inputs.filter((one) => drawKind(one).isImage);
  const own = value.key.startsWith("B.") ? pictures.find(({ key }) => key.startsWith("B.")) : null;
  return own ?? pictures[0];
}

/** CSS pixels of a picture of h×w that fits a square. */
export function useFittedSize(value: Value, side: number) {
  const ratio = useViews().pixelRatio.value;
  const [, , h, w] = value.nchw;
  const { width, height } = pictureSize(h, w, { width: side * ratio, height: side * ratio });
  return { width: width / ratio, height: height / ratio };
}

/** Pictures on each other, in this order. */
export function Blend(props: {
  width: number;
  height: number;
  shown: "over" | "classes" | "input";
  children: ComponentChildren;
}) {
  const { width, height, shown, children } = props;
  const opacity = useBlendSettings().opacity.value / 100;
  const style = { width: px(width), height: px(height), "--nbg-over": opacity };
  return (
    <div class="nbg-blend" style={style} data-shown={shown}>
      {children}
    </div>
  );
}

/** Channels of a value as one picture of this width, whatever its own size. */
export function BlendLayer(props: {
  value: Value;
  channels?: readonly number[];
  width: number;
  pick?: (y: number, x: number) => void;
}) {
  const { value, width, channels, pick } = props;
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
      showRank={pick !== undefined}
      {...(pick && { pick })}
    />
  );
}

/** How much of what lies above is seen. */
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

/** Whether maps lie over the picture, and how much of them is seen. */
export function BlendTools() {
  const { over } = useBlendSettings();
  return (
    <div class="nbg-blend-tools">
      <label class="nbg-labelled">
        <input
          type="checkbox"
          checked={over.value}
          onChange={(event) => {
            over.value = event.currentTarget.checked;
          }}
        />
        <span class="nbg-second">Over the picture</span>
      </label>
      {over.value && <OpacitySlider />}
    </div>
  );
}
