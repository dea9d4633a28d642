// The tabs: an entry here is all that the bar, the shell and the keyboard know of one.

import type { FunctionComponent } from "preact";
import { listedPairs, shownPair } from "../features/compare/views/pairs.ts";
import compareStyle from "../features/compare/views/style.css";
import { CompareView } from "../features/compare/views/view.tsx";
import teachStyle from "../features/teaching/views/style.css";
import { TeachView } from "../features/teaching/views/view.tsx";
import trainStyle from "../features/training/views/style.css";
import { TrainView } from "../features/training/views/view.tsx";
import { firstValue, type Network } from "../network/network.ts";
import type { Selection, TabName } from "../state.ts";
import type { Views } from "./context.ts";
import { NetworkTab } from "./forms.tsx";
import { LayerView } from "./layer/tab.tsx";
import profileStyle from "./profile/style.css";
import { ProfileView } from "./profile/view.tsx";

export interface Tab {
  readonly name: TabName;
  readonly title: string;
  readonly component: FunctionComponent<{ network: Network }>;
  readonly keys: TabKeys;
  /** Its style sheet, where it has one of its own. */
  readonly style?: string;
  /** Whether there is anything to show in it; all have it by default. */
  available?(network: Network, views: Views): boolean;
}

/** What keys do in a tab. */
export interface TabKeys {
  /** The layers that ← and → lead through, by the names that are selected, and which one is shown; -1 for none. */
  layers(network: Network, selected: Selection | null): { names: readonly string[]; at: number };
  /** Which channel ↑ and ↓ go on from; these keys do nothing here without it. */
  channel?(network: Network, selected: Selection | null): Selection | null;
  /** What gets the focus when another layer is shown, as a selector. */
  readonly layerFocus: string;
  /** Where Esc leads; without it the notebook gets the keyboard back. */
  back?(network: Network): TabName;
  /** Keys that only this tab has; whether it was one. */
  press?(key: string, views: Views): boolean;
}

const indexOfPair = (network: Network, selected: Selection | null): number => {
  const shown = shownPair(network, selected);
  return listedPairs(network).findIndex((pair) => pair.row === shown?.row);
};

const compare: Tab = {
  name: "compare",
  title: "Compare",
  component: (props) => <CompareView {...props} />,
  style: compareStyle,
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
};

/** ← and → lead from stage to stage. */
const stages: TabKeys = {
  layers: (network, selected) => ({
    names: network.stages.map((stage) => stage.key),
    at: network.stages.findIndex((stage) =>
      stage.layers.some((layer) => layer.name === selected?.layer),
    ),
  }),
  layerFocus: ".nbg-picture",
};

const network: Tab = {
  name: "network",
  title: "Network",
  component: NetworkTab,
  keys: {
    ...stages,
    press(key, { root }) {
      if (key !== "/") return false;
      root.querySelector<HTMLElement>(".nbg-finder")?.focus();
      return true;
    },
  },
};

const layer: Tab = {
  name: "layer",
  title: "Layer",
  component: (props) => <LayerView {...props} />,
  keys: {
    layers(network, selected) {
      const names = network.layers.map((one) => one.name);
      return { names, at: names.indexOf(selected?.layer ?? firstValue(network)?.key ?? "") };
    },
    channel: (_, selected) => selected,
    layerFocus: ".nbg-rail-item",
    back: (network) => (network.pairs.size > 0 ? "compare" : "network"),
    press(key, { state }) {
      if (key === "e") state.section.value = "explain";
      return key === "e";
    },
  },
};

const profile: Tab = {
  name: "profile",
  title: "Profile",
  component: (props) => <ProfileView {...props} />,
  style: profileStyle,
  keys: stages,
};

const train: Tab = {
  name: "train",
  title: "Train",
  component: (props) => <TrainView {...props} />,
  style: trainStyle,
  available: (_, { trains }) => trains.value,
  keys: {
    // Those that can learn.
    layers(network, selected) {
      const names = network.layers.flatMap((one) => (one.parameters > 0 ? one.name : []));
      return { names, at: names.indexOf(selected?.layer ?? "") };
    },
    layerFocus: ".nbg-train",
  },
};

const teach: Tab = {
  name: "teach",
  title: "Teach",
  component: (props) => <TeachView {...props} />,
  style: teachStyle,
  available: (_, { state }) => state.teaching.value !== null,
  keys: stages,
};

/** In their order. Two networks in one are there to be compared. */
export const TABS: readonly Tab[] = [compare, network, layer, train, teach, profile];

/** A network's tabs. */
export const tabsOf = (network: Network, views: Views): readonly Tab[] =>
  TABS.filter((tab) => tab.available?.(network, views) ?? true);

/** The tab that is shown: the chosen one where the network has it. */
export function shownTab(of: Network, name: TabName, views: Views): Tab {
  return tabsOf(of, views).find((tab) => tab.name === name) ?? network;
}
