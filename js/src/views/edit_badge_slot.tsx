// The slot that feature badges fill beside a layer's name.

import type { Slots } from "../features/feature.ts";
import { Slot } from "./slot.tsx";

export const EditBadgeSlot = (props: Slots["layerMark"]) => (
  <Slot name="layerMark" slotProps={props} />
);
