// At a layer: which bends it has, and whether a training went wrong there.

import { Mark } from "../features/edits/views/marks.tsx";
import { Wrong } from "../features/training/views/wrong.tsx";
import type { Layer } from "../plan/schema.ts";

/** `layers`: all that a closed module stands for. */
export const Bent = (props: { layer: string; layers?: readonly Layer[] }) => (
  <>
    <Mark {...props} />
    <Wrong {...props} />
  </>
);
