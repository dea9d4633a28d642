// What the room of manipulations takes of this one: files that two rooms import would be the core's, which is full.
import { useStages } from "./derived.ts";
import { GripButton, RemoveButton, useGrips } from "./grips.tsx";
import { NumberControl } from "./number.tsx";
import {
  bend,
  calledOf,
  countText,
  fits,
  isBend,
  isBendable,
  MIX,
  ofLayer,
  parametersOf,
  TRANSFORMS,
  whyNot,
  withNumber,
  withPart,
} from "./stack.ts";

export const kit = {
  GripButton,
  MIX,
  NumberControl,
  RemoveButton,
  TRANSFORMS,
  bend,
  calledOf,
  countText,
  fits,
  isBend,
  isBendable,
  ofLayer,
  parametersOf,
  useGrips,
  useStages,
  whyNot,
  withNumber,
  withPart,
};

export type Kit = typeof kit;
