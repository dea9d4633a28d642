// Training in this page, or the curve and weights of a training that runs elsewhere.
import charts from "uplot/dist/uPlot.min.css";
import { type Feature, recordTraitSync } from "../feature.ts";
import { ExportedTraining } from "./exported_training.ts";
import { NotebookTrainingHost } from "./notebook_host.ts";
import { trainingState } from "./state.ts";
import { runTraining } from "./training_runner.ts";
import { NanBadge } from "./views/nan_badge.tsx";
import style from "./views/style.css";
import { TrainView } from "./views/train_view.tsx";

export const training: Feature = {
  name: "training",
  state: trainingState,
  traits: (state) => [
    recordTraitSync("_training", "training", state.training),
    {
      names: ["_others"],
      apply(value) {
        state.remoteView.value = { blob: "", ...(value as object) };
      },
    },
  ],
  start(host) {
    const { state, engine, python, exported } = host;
    if (python !== undefined && engine.device !== undefined) {
      state.trainingHost.value = new NotebookTrainingHost(host, python);
    }
    const own = exported && new ExportedTraining(host, exported.record);
    const end = runTraining(state);
    return {
      onPageReady: () => own?.open(),
      ...(own && { scriptApi: own.scriptApi }),
      close() {
        end();
        state.trainingHost.value = null;
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
      keyBindings: {
        // Layers with trainable parameters.
        layers(network, selected) {
          const names = network.layers.flatMap((one) => (one.parameters > 0 ? one.name : []));
          return { names, at: names.indexOf(selected?.layer ?? "") };
        },
        focusSelector: ".nbg-train",
      },
    },
  ],
  slots: { layerMark: NanBadge },
  styles: [charts, style],
};
