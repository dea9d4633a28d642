// Where the input comes from: a camera, a film, a picture, a drawing, a data set, noise or a latent.
import { effect } from "@preact/signals";
import { type Feature, recordTrait } from "../feature.ts";
import { InputFeeder } from "./feeder.ts";
import type { Source } from "./records.ts";
import { runSources } from "./run.ts";
import { sourceState } from "./state.ts";
import { Chosen } from "./views/chosen.tsx";
import { Drawer } from "./views/drawer.tsx";
import { LiveLegend } from "./views/legend.tsx";
import { Playing } from "./views/playing.tsx";
import style from "./views/sources.css";

export const sources: Feature = {
  name: "sources",
  state: sourceState,
  traits: (state) => [recordTrait("_source", "source", state.source)],
  run(host) {
    const { state, engine, python, exported } = host;
    const feeder = new InputFeeder(host);
    if (engine.device !== undefined) state.feeder.value = feeder;
    const stop = effect(() => {
      const { source, fed, sourceStatus } = state;
      feeder.note(source.value);
      fed.value;
      sourceStatus.value;
      python?.wake();
    });
    const end = runSources(state);
    return {
      asked() {
        const { time } = feeder;
        return () => feeder.awaits(time);
      },
      open() {
        state.source.value = (exported?.record.source ?? null) as Source | null;
      },
      inputGiven() {
        state.source.value = null;
      },
      close() {
        end();
        stop();
        state.feeder.value = null;
      },
    };
  },
  slots: { barStart: Playing, barEnd: Chosen, drawer: Drawer, liveLegend: LiveLegend },
  styles: [style],
};
