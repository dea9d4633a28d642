// A code in a layer's place, as a source: sources/kinds.ts has its kind.
import type { Feature } from "../feature.ts";
import { latentState } from "./state.ts";
import style from "./views/latent.css";

export const latent: Feature = {
  name: "latent",
  state: latentState,
  run: ({ state, engine }) => {
    state.twin.value = () => engine.twin();
    return {};
  },
  styles: [style],
};
