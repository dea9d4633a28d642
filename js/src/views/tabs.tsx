// The tabs: each entry holds everything that the toolbar, the shell and the keyboard need.

import { type Feature, STAGE_KEY_BINDINGS, type Tab } from "../features/feature.ts";
import { initiallySelectedValue, type Network } from "../network/network.ts";
import type { TabName } from "../state.ts";
import type { Views } from "./context.ts";
import { LayerTab } from "./layer/tab.tsx";
import { NetworkTab } from "./network_tab.tsx";
import { ProfileView } from "./profile/view.tsx";

const networkTab: Tab = {
  name: "network",
  title: "Network",
  component: NetworkTab,
  keyBindings: {
    ...STAGE_KEY_BINDINGS,
    onKey(key, { root }) {
      if (key !== "/") return false;
      root.querySelector<HTMLElement>(".nbg-finder")?.focus();
      return true;
    },
  },
};

const layerTab: Tab = {
  name: "layer",
  title: "Layer",
  component: LayerTab,
  keyBindings: {
    layers(network, selected) {
      const names = network.layers.map((one) => one.name);
      return {
        names,
        at: names.indexOf(selected?.layer ?? initiallySelectedValue(network)?.key ?? ""),
      };
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

const profileTab: Tab = {
  name: "profile",
  title: "Profile",
  component: ProfileView,
  keyBindings: STAGE_KEY_BINDINGS,
};

/** All tabs in order: a feature's tab comes before the tab that it names. */
function allTabs(features: readonly Feature[]): readonly Tab[] {
  const all: Tab[] = [networkTab, layerTab, profileTab];
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
export function shownTab(network: Network, name: TabName, views: Views): Tab {
  return tabsOf(network, views).find((tab) => tab.name === name) ?? networkTab;
}
