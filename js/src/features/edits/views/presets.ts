// Presets: named stacks of bends that replace a layer's bends.
import { type Edit, INJECT, TRANSFORMS } from "../../../plan/edits.ts";
import { allChannels, everyNthChannel, randomHalf } from "./channel_sets.ts";
import { makeBend, toChannelList } from "./edit_operations.ts";

interface PresetStep {
  readonly transform: string;
  readonly parameters?: readonly number[];
  readonly mix?: number;
  /** The channels: all, every second one, or a random half. */
  readonly channels?: "second" | "half";
}

export const PRESETS: readonly (readonly [string, readonly PresetStep[]])[] = [
  ["Ablate half", [{ transform: "ablate", channels: "half" }]],
  [
    "Dream blur",
    [
      { transform: "blur", parameters: [1.2] },
      { transform: "multiply", parameters: [1.8], mix: 0.8 },
    ],
  ],
  [
    "Turned",
    [
      { transform: "rotate", parameters: [30] },
      { transform: "scale", parameters: [1.25] },
    ],
  ],
  [
    "Poster",
    [
      { transform: "sharpen", parameters: [2, 1] },
      { transform: "clamp", parameters: [0, 0.6] },
    ],
  ],
  ["Noise", [{ transform: "noise", parameters: [0.6, 1] }]],
  [
    "Mirror",
    [
      { transform: "flip_h", mix: 0.5 },
      { transform: "translate", parameters: [0.15, 0], channels: "second", mix: 0.5 },
    ],
  ],
  [
    "Thick lines",
    [
      { transform: "dilate", parameters: [1] },
      { transform: "threshold", parameters: [0.4], mix: 0.6 },
    ],
  ],
];

/** Seed of random channel sets, so that a preset is always the same. */
const SEED = 1;

/** Replace a layer's bends with a preset; injections stay. */
export function applyPreset(
  edits: readonly Edit[],
  layer: string,
  steps: readonly PresetStep[],
  channelCount: number,
): Edit[] {
  const made = edits.filter((one) => one.layer !== layer || one.transform === INJECT);
  for (const { transform, parameters, mix = 1, channels } of steps) {
    const kind = TRANSFORMS.find(({ name }) => name === transform);
    if (kind === undefined) continue;
    const set =
      channels === "half"
        ? randomHalf(channelCount, SEED)
        : channels === "second"
          ? everyNthChannel(2, channelCount)
          : allChannels(channelCount);
    const more = { mix, ...(parameters && { parameters }) };
    made.push(makeBend(made, layer, kind, toChannelList(set, channelCount), more));
  }
  return made;
}
