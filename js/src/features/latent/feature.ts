// A code in a layer's place, as a source: sources/source_kinds.ts has its kind.
import type { Feature } from "../feature.ts";
import { latentState } from "./state.ts";
import style from "./views/latent.css";

export const latent: Feature = {
  name: "latent",
  state: latentState,
  start: ({ state, engine }) => {
    state.forkSession.value = () => engine.forkSession();
    return {};
  },
  styles: [style],
};
