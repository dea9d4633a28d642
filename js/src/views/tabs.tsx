// The tabs: each entry holds everything that the toolbar, the shell and the keyboard need.

import { type Feature, STAGE_KEYS, type Tab } from "../features/feature.ts";
import { defaultValue, type Network } from "../network/network.ts";
import type { TabName } from "../state.ts";
import type { Views } from "./context.ts";
import { LayerTab } from "./layer/tab.tsx";
import { NetworkTab } from "./network_tab.tsx";
import { ProfileView } from "./profile/view.tsx";

const network: Tab = {
  name: "network",
  title: "Network",
  component: NetworkTab,
  keys: {
    ...STAGE_KEYS,
    onKey(key, { root }) {
      if (key !== "/") return false;
      root.querySelector<HTMLElement>(".nbg-finder")?.focus();
      return true;
    },
  },
};

const layer: Tab = {
  name: "layer",
  title: "Layer",
  component: LayerTab,
  keys: {
    layers(network, selected) {
      const names = network.layers.map((one) => one.name);
      return { names, at: names.indexOf(selected?.layer ?? defaultValue(network)?.key ?? "") };
    },
    channel: (_, selected) => selected,
    focusSelector: ".nbg-rail-item",
    escapeToFirstTab: true,
    onKey(key, { state }) {
      if (key === "e") state.layerSection.value = "explain";
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

/** All tabs in order: a feature's tab comes before the tab that it names. */
function allTabs(features: readonly Feature[]): readonly Tab[] {
  const all: Tab[] = [network, layer, profile];
  for (const tab of features.flatMap(({ tabs = [] }) => tabs)) {
    const at = all.findIndex(({ name }) => name === tab.before);
    all.splice(at < 0 ? all.length : at, 0, tab);
  }
  return all;
}

/** The tabs available for a network. */
export const tabsOf = (network: Network, { features, state }: Views): readonly Tab[] =>
  allTabs(features).filter((tab) => tab.available?.(network, state) ?? true);

/** The current tab: the selected one if it is available for the network. */
export function shownTab(of: Network, name: TabName, views: Views): Tab {
  return tabsOf(of, views).find((tab) => tab.name === name) ?? network;
}
