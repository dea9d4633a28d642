// At a layer: what features say of it.

import type { Slots } from "../features/feature.ts";
import { Slot } from "./slot.tsx";

export const Bent = (props: Slots["layerMark"]) => <Slot name="layerMark" of={props} />;
