// What one source is given by whoever runs it, and what it gives: the same for each kind.
import type { InputOverride } from "../../engine/types.ts";
import { channelsAndSize } from "../../pictures/resize.ts";
import type { Input } from "../../plan/schema.ts";
import type { ViewerState } from "../../state.ts";
import type { Source } from "./records.ts";
import type { Feeder, SourceControls, SourceFailure, SourceStatus } from "./state.ts";

export interface InputSlot<S extends Source = Source> {
  readonly state: ViewerState;
  readonly feeder: Feeder;
  /** The input that is fed. */
  readonly input: Input;
  /** The record of now. */
  readonly source: S;
  /** Feeds the input for this record; resolves when it has run. Asked then: whether others follow by themselves. */
  feed(fed: Omit<InputOverride, "key">, of: S, follows: () => boolean): Promise<void>;
  /** Nothing follows what was fed last. */
  markStill(): void;
  /** Changes the record, here and in Python. */
  change(part: Partial<S>): void;
  setPhase(phase: SourceStatus["phase"]): void;
  fail(failure: SourceFailure, detail: unknown): void;
  /** Gives the drawer what it has of this source; what is left out stays. */
  updateControls(controls: Partial<SourceControls>): void;
}

/** A source that runs. */
export interface SourceInstance<S extends Source = Source> {
  /** The record is another one, of the same kind and data. */
  update(source: S): void;
  /** From now on it goes on by itself; called once, until `stop`. */
  start(): void;
  /** Nothing more is fed. */
  stop(): void;
  /** Lets go of what others see of it, as a camera's light, until `start`. */
  releaseDevice?(): void;
  dispose(): void;
}

export type OpenSource<S extends Source = Source> = (place: InputSlot<S>) => SourceInstance<S>;

/** Elements of the input, of all its examples. */
export const elementCount = ({ shape }: Input): number =>
  shape.reduce((all, side) => all * side, 1);

/** One example's, for each of the input's: sources have one. */
export function repeatPerExample(one: Float32Array, input: Input): Float32Array {
  const all = new Float32Array(elementCount(input));
  for (let at = 0; at < all.length; at += one.length) all.set(one, at);
  return all;
}

/** A picture's numbers, channel after channel from 0 to 1, as an input has them of each example. */
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

/** Resolves after so many ms, or by the signal. */
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
