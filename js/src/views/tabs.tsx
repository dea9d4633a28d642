// The tabs: an entry is all that the bar, the shell and the keyboard know of one.

import { type Feature, STAGE_KEYS, type Tab } from "../features/feature.ts";
import { firstValue, type Network } from "../network/network.ts";
import type { TabName } from "../state.ts";
import type { Views } from "./context.ts";
import { NetworkTab } from "./forms.tsx";
import { LayerView } from "./layer/tab.tsx";
import { ProfileView } from "./profile/view.tsx";

const network: Tab = {
  name: "network",
  title: "Network",
  component: NetworkTab,
  keys: {
    ...STAGE_KEYS,
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
  component: LayerView,
  keys: {
    layers(network, selected) {
      const names = network.layers.map((one) => one.name);
      return { names, at: names.indexOf(selected?.layer ?? firstValue(network)?.key ?? "") };
    },
    channel: (_, selected) => selected,
    layerFocus: ".nbg-rail-item",
    leads: true,
    press(key, { state }) {
      if (key === "e") state.section.value = "explain";
      return key === "e";
    },
  },
};

const profile: Tab = {
  name: "profile",
  title: "Profile",
  component: ProfileView,
  keys: STAGE_KEYS,
};

/** In their order: those of features stand before the ones that they name. */
function allTabs(features: readonly Feature[]): readonly Tab[] {
  const all: Tab[] = [network, layer, profile];
  for (const tab of features.flatMap(({ tabs = [] }) => tabs)) {
    const at = all.findIndex(({ name }) => name === tab.before);
    all.splice(at < 0 ? all.length : at, 0, tab);
  }
  return all;
}

/** A network's tabs. */
export const tabsOf = (network: Network, { features, state }: Views): readonly Tab[] =>
  allTabs(features).filter((tab) => tab.available?.(network, state) ?? true);

/** The tab that is shown: the chosen one where the network has it. */
export function shownTab(of: Network, name: TabName, views: Views): Tab {
  return tabsOf(of, views).find((tab) => tab.name === name) ?? network;
}
