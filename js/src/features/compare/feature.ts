// Two networks in one Plan, and where they differ.
import type { Network } from "../../network/network.ts";
import type { Selection } from "../../state.ts";
import type { Feature } from "../feature.ts";
import { DifferenceBar } from "./views/mark.tsx";
import { listedPairs, shownPair } from "./views/pairs.ts";
import style from "./views/style.css";
import { CompareView } from "./views/view.tsx";

const indexOfPair = (network: Network, selected: Selection | null): number => {
  const shown = shownPair(network, selected);
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
      before: "network", // two networks in one are there to be compared
      available: (network) => network.pairs.size > 0,
      keys: {
        layers: (network, selected) => ({
          names: listedPairs(network).map((pair) => pair.difference),
          at: indexOfPair(network, selected),
        }),
        channel(network, selected) {
          const layer = shownPair(network, selected)?.difference;
          return layer === undefined ? null : { layer, channel: selected?.channel ?? null };
        },
        layerFocus: ".nbg-change",
      },
    },
  ],
  slots: { difference: DifferenceBar },
  styles: [style],
};
