// At a layer: what features say of it.

import type { Slots } from "../features/feature.ts";
import { Slot } from "./slot.tsx";

export const EditBadgeSlot = (props: Slots["layerMark"]) => (
  <Slot name="layerMark" slotProps={props} />
);
