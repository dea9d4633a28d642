// Comparison of two networks in one Plan.
import type { Network } from "../../network/network.ts";
import type { Selection } from "../../state.ts";
import type { Feature } from "../feature.ts";
import { CompareView } from "./views/compare_view.tsx";
import { DifferenceBar } from "./views/difference_bar.tsx";
import { listedPairs, selectedPair } from "./views/layer_pairs.ts";
import style from "./views/style.css";

const indexOfSelectedPair = (network: Network, selected: Selection | null): number => {
  const shown = selectedPair(network, selected);
  return listedPairs(network).findIndex((pair) => pair.row === shown?.row);
};

export const compare: Feature = {
  name: "compare",
  views: () => ["compare"],
  tabs: [
    {
      name: "compare",
      title: "Compare",
      component: CompareView,
      before: "network", // a Plan with two networks is opened to compare them
      available: (network) => network.comparisonPairs.size > 0,
      keyBindings: {
        layers: (network, selected) => ({
          names: listedPairs(network).map((pair) => pair.difference),
          at: indexOfSelectedPair(network, selected),
        }),
        channel(network, selected) {
          const layer = selectedPair(network, selected)?.difference;
          return layer === undefined ? null : { layer, channel: selected?.channel ?? null };
        },
        focusSelector: ".nbg-change",
      },
    },
  ],
  slots: { difference: DifferenceBar },
  styles: [style],
};
