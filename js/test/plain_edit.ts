// An edit that transforms nothing, for tests to make theirs of.
import type { Edit } from "../src/plan/edits.ts";

export const PLAIN_EDIT: Edit = {
  layer: "",
  name: "",
  transform: "",
  parameters: [],
  channels: null,
  mix: 1,
  enabled: true,
  source: "",
  parameter_names: [],
  array_hash: "",
  is_frozen: false,
  skips_upstream: false,
};
