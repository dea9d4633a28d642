// Sources of the input: a camera, a video, a picture, a drawing, a data set, noise or a latent.
import { effect } from "@preact/signals";
import { type Feature, recordTraitSync } from "../feature.ts";
import { InputFeeder } from "./feeder.ts";
import type { Source } from "./records.ts";
import { runSources } from "./source_runner.ts";
import { sourceState } from "./state.ts";
import { LiveLegend } from "./views/live_legend.tsx";
import { PlayPauseButton } from "./views/play_button.tsx";
import { SourceButton } from "./views/source_button.tsx";
import style from "./views/source_drawer.css";
import { SourceDrawer } from "./views/source_drawer.tsx";

export const sources: Feature = {
  name: "sources",
  state: sourceState,
  traits: (state) => [recordTraitSync("_source", "source", state.source)],
  start(host) {
    const { state, engine, python, exported } = host;
    const feeder = new InputFeeder(host);
    if (engine.device !== undefined) state.feeder.value = feeder;
    const stop = effect(() => {
      const { source, inputOverride, sourceStatus } = state;
      feeder.registerSource(source.value);
      inputOverride.value;
      sourceStatus.value;
      python?.notifyReads();
    });
    const end = runSources(state);
    return {
      onRead() {
        const { currentSourceNumber } = feeder;
        return () => feeder.isAwaitingInput(currentSourceNumber);
      },
      onPageReady() {
        state.source.value = (exported?.record.source ?? null) as Source | null;
      },
      onInputSet() {
        state.source.value = null;
      },
      close() {
        end();
        stop();
        state.feeder.value = null;
      },
    };
  },
  slots: {
    barStart: PlayPauseButton,
    barEnd: SourceButton,
    drawer: SourceDrawer,
    liveLegend: LiveLegend,
  },
  styles: [style],
};
