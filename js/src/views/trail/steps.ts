// From an explained number to another one, and what a place is called on the way.
import { batch } from "@preact/signals";
import { classText, type Names } from "../../network/classes.ts";
import type { Value } from "../../plan.ts";
import type { Step, ViewerState } from "../../state.ts";

/** Where a number stands in a value. */
type Spot = Omit<Step, "layer">;

/** Explains another number: `before` are the steps that led there. */
export function goTo(state: ViewerState, value: Value, to: Spot, before: readonly Step[]): void {
  const [, , height, width] = value.nchw;
  batch(() => {
    state.trail.value = { to: value.key, before };
    state.selected.value = { layer: value.key, channel: to.channel };
    state.pixel.value = { height, width, y: to.y, x: to.x };
  });
}

/** The steps that led to the number of a value that is explained, and this one. */
export function stepsTo({ trail }: ViewerState, { key }: Value, at: Spot): readonly Step[] {
  const before = trail.value?.to === key ? trail.value.before : [];
  return [...before, { layer: key, channel: at.channel, y: at.y, x: at.x }];
}

/** "channel 13, y 3, x 3"; of a vector "value 661" or "tabby (281)". */
export function spotText(value: Value, { channel, y, x }: Spot, names: Names): string {
  const [, channels, height, width] = value.nchw;
  const vector = height * width === 1;
  const known = names(value.key);
  const parts: string[] = [];
  if (known[channel]) parts.push(classText(known, channel));
  else if (channels > 1) parts.push(`${vector ? "value" : "channel"} ${channel}`);
  if (!vector) parts.push(height > 1 ? `y ${y}, x ${x}` : `x ${x}`);
  return parts.join(", ");
}
