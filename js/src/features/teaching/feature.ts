// Teaching: a classifier that learns from examples in this page.
import { readField } from "../../unvalidated_field.ts";
import { type Feature, STAGE_KEY_BINDINGS } from "../feature.ts";
import type { TeachingRecord } from "./records.ts";
import { teachingState } from "./state.ts";
import style from "./views/style.css";
import { TeachView } from "./views/teach_view.tsx";

export const teaching: Feature = {
  name: "teaching",
  state: teachingState,
  traits: (state) => [
    {
      names: ["_teaching"],
      apply(value) {
        state.teaching.value = readField(value, "id") ? (value as TeachingRecord) : null;
      },
    },
  ],
  start({ state, python, exported }) {
    if (python !== undefined) {
      state.sendLessonChange.value = (taught, data) => python.send(taught, [data]);
    }
    return {
      onPageReady() {
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
      keyBindings: STAGE_KEY_BINDINGS,
    },
  ],
  styles: [style],
};
