// The interface between a source and the source runner, the same for every kind.
import type { InputOverride } from "../../engine/types.ts";
import { channelsAndSize } from "../../pictures/resize.ts";
import type { Input } from "../../plan/schema.ts";
import type { ViewerState } from "../../state.ts";
import type { Source } from "./records.ts";
import type { Feeder, SourceControls, SourceFailure, SourceStatus } from "./state.ts";

export interface InputSlot<S extends Source = Source> {
  readonly state: ViewerState;
  readonly feeder: Feeder;
  /** The input that the source overrides. */
  readonly input: Input;
  /** The current record. */
  readonly source: S;
  /**
   * Override the input for this record; resolves when it has run. `hasMoreInputs` is called then: whether more inputs
   * follow automatically.
   */
  feed(
    newOverride: Omit<InputOverride, "key">,
    record: S,
    hasMoreInputs: () => boolean,
  ): Promise<void>;
  /** Report that no input follows the last one. */
  reportNoMoreInputs(): void;
  /** Change the record, here and in Python. */
  change(changes: Partial<S>): void;
  setPhase(phase: SourceStatus["phase"]): void;
  fail(failure: SourceFailure, detail: unknown): void;
  /** Update the drawer's controls for this source; omitted ones stay. */
  updateControls(controls: Partial<SourceControls>): void;
}

/** A running source. */
export interface SourceInstance<S extends Source = Source> {
  /** Apply another record of the same kind and data. */
  update(source: S): void;
  /** Start continuous playback; called once until `stop`. */
  start(): void;
  /** Stop feeding. */
  stop(): void;
  /** Release the capture device, and with it a camera's light, until `start`. */
  releaseDevice?(): void;
  dispose(): void;
}

export type OpenSource<S extends Source = Source> = (slot: InputSlot<S>) => SourceInstance<S>;

/** Number of elements in the input, over all its examples. */
export const elementCount = ({ shape }: Input): number =>
  shape.reduce((all, side) => all * side, 1);

/** Repeat one example for every example of the input: a source provides one. */
export function repeatPerExample(example: Float32Array, input: Input): Float32Array {
  const all = new Float32Array(elementCount(input));
  for (let at = 0; at < all.length; at += example.length) all.set(example, at);
  return all;
}

/** Convert a picture (channel-first, values from 0 to 1) to the input's layout and range, for every example. */
export function toInputLayout(picture: Float32Array, input: Input): Float32Array {
  const white = input.dtype === "uint8" ? 255 : 1;
  const numbers = white === 1 ? picture : picture.map((one) => Math.round(white * one));
  if (input.layout !== "NHWC") return repeatPerExample(numbers, input);
  const [channels] = channelsAndSize(input);
  const places = numbers.length / channels;
  const turned = numbers.map(
    (_, at) => numbers[(at % channels) * places + Math.floor(at / channels)] ?? 0,
  );
  return repeatPerExample(turned, input);
}

/** Resolve after `ms` milliseconds or when `signal` aborts. */
export function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
    if (signal.aborted) done();
  });
}
