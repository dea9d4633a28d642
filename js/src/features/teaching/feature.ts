// A classifier that learns from examples in this page.
import { at } from "../../describe_unknown.ts";
import { type Feature, STAGE_KEYS } from "../feature.ts";
import type { TeachingRecord } from "./records.ts";
import { teachingState } from "./state.ts";
import style from "./views/style.css";
import { TeachView } from "./views/view.tsx";

export const teaching: Feature = {
  name: "teaching",
  state: teachingState,
  traits: (state) => [
    {
      names: ["_teaching"],
      take(value) {
        state.teaching.value = at(value, "id") ? (value as TeachingRecord) : null;
      },
    },
  ],
  run({ state, python, exported }) {
    if (python !== undefined) {
      state.teach.value = (taught, data) => python.send(taught, [data]);
    }
    return {
      open() {
        state.teaching.value = (exported?.record.teaching ?? null) as TeachingRecord | null;
      },
    };
  },
  views: (exported) => (exported.teaching === null ? [] : ["teach"]),
  tabs: [
    {
      name: "teach",
      title: "Teach",
      component: TeachView,
      before: "profile",
      available: (_, { teaching }) => teaching.value !== null,
      keys: STAGE_KEYS,
    },
  ],
  styles: [style],
};
