// The features of a page, in order of start and of display.
import { compare } from "./compare/feature.ts";
import { edits } from "./edits/feature.ts";
import { exporting } from "./export/feature.ts";
import type { Feature } from "./feature.ts";
import { latent } from "./latent/feature.ts";
import { mirror } from "./mirror/feature.ts";
import { sources } from "./sources/feature.ts";
import { teaching } from "./teaching/feature.ts";
import { training } from "./training/feature.ts";

export const FEATURES: readonly Feature[] = [
  edits,
  sources,
  latent,
  training,
  mirror,
  teaching,
  compare,
  exporting,
];
