// Latent: a source that replaces a layer's value with a code. Its source kind is in sources/source_kinds.ts.
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
