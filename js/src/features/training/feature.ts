// A training in this page, or the curve and the weights of one elsewhere.
import charts from "uplot/dist/uPlot.min.css";
import { type Feature, recordTrait } from "../feature.ts";
import { NotebookHost } from "./notebook_host.ts";
import { ExportedTraining } from "./page_training.ts";
import { runTraining } from "./run.ts";
import { trainingState } from "./state.ts";
import style from "./views/style.css";
import { TrainView } from "./views/view.tsx";
import { Wrong } from "./views/wrong.tsx";

export const training: Feature = {
  name: "training",
  state: trainingState,
  traits: (state) => [
    recordTrait("_training", "training", state.training),
    {
      names: ["_others"],
      take(value) {
        state.others.value = { blob: "", ...(value as object) };
      },
    },
  ],
  run(host) {
    const { state, engine, python, exported } = host;
    if (python !== undefined && engine.device !== undefined) {
      state.trainer.value = new NotebookHost(host, python);
    }
    const own = exported && new ExportedTraining(host, exported.record);
    const end = runTraining(state);
    return {
      open: () => own?.open(),
      ...(own && { scripts: own.scripts }),
      close() {
        end();
        state.trainer.value = null;
      },
    };
  },
  views: (exported) => (exported.training === null ? [] : ["train"]),
  tabs: [
    {
      name: "train",
      title: "Train",
      component: TrainView,
      before: "profile",
      available: (_, { training, progress }) =>
        training.value !== null || progress.value.phase !== "off",
      keys: {
        // Those that can learn.
        layers(network, selected) {
          const names = network.layers.flatMap((one) => (one.parameters > 0 ? one.name : []));
          return { names, at: names.indexOf(selected?.layer ?? "") };
        },
        layerFocus: ".nbg-train",
      },
    },
  ],
  slots: { layerMark: Wrong },
  styles: [charts, style],
};
