// At a layer: which bends it has, and whether a training went wrong there.
import type { Layer } from "../plan.ts";
import { Mark } from "./bend/marks.tsx";
import { Wrong } from "./train/wrong.tsx";

/** `layers`: all that a closed module stands for. */
export const Bent = (props: { layer: string; layers?: readonly Layer[] }) => (
  <>
    <Mark {...props} />
    <Wrong {...props} />
  </>
);
