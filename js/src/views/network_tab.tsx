// The Network tab: the network as a strip or a graph, and the search field for layers.

import { useId } from "preact/hooks";
import { longType, type Network } from "../network/network.ts";
import type { NetworkLayout } from "../state.ts";
import { Choice } from "./choice.tsx";
import { useViews } from "./context.ts";
import { GraphView } from "./graph/graph.tsx";
import { LayerPanel } from "./layer_panel.tsx";
import { leaveSearch } from "./layer_search.ts";
import { NARROW_WIDTH } from "./layout.ts";
import { isChain, Strip } from "./strip.tsx";

const NETWORK_LAYOUT_ITEMS: readonly (readonly [NetworkLayout, string])[] = [
  ["strip", "Strip"],
  ["graph", "Graph"],
];

export function NetworkTab({ network }: { network: Network }) {
  return (
    <>
      <NetworkView network={network} />
      <LayerPanel network={network} />
    </>
  );
}

function NetworkView({ network }: { network: Network }) {
  const { state, width } = useViews();
  const suits = width.value < NARROW_WIDTH || isChain(network) ? "strip" : "graph";
  const form = state.networkLayout.value ?? suits;
  return (
    <>
      <div class="nbg-forms">
        <Choice
          label="Layout of the network"
          items={NETWORK_LAYOUT_ITEMS}
          selected={form}
          choose={(name) => {
            state.networkLayout.value = name;
          }}
        />
        <LayerSearch network={network} />
      </div>
      {form === "graph" ? <GraphView network={network} /> : <Strip network={network} />}
    </>
  );
}

/** Search for a layer by name or type; the graph opens the modules around it. */
function LayerSearch({ network }: { network: Network }) {
  const { state, root } = useViews();
  const id = useId();
  const find = (field: HTMLInputElement, parts: boolean): void => {
    const wanted = field.value.trim().toLowerCase();
    const found = network.layers.find(({ name, module, operator }) =>
      parts && wanted !== ""
        ? `${name} ${module} ${operator}`.toLowerCase().includes(wanted)
        : name.toLowerCase() === wanted,
    );
    if (found === undefined) return;
    state.searchedLayer.value = found.name;
    state.selected.value = { layer: found.name, channel: null };
    leaveSearch(root);
  };
  return (
    <label class="nbg-find">
      Find a layer
      <input
        type="search"
        class="nbg-finder"
        list={id}
        autocomplete="off"
        aria-keyshortcuts="/"
        // `change` accepts exact names only, e.g. from the suggestion list; Enter also accepts a part of a name, or a
        // type.
        onChange={(event) => find(event.currentTarget, false)}
        onKeyDown={(event) => {
          if (event.key === "Enter") find(event.currentTarget, true);
        }}
      />
      <kbd>/</kbd>
      <datalist id={id}>
        {network.layers.map((layer) => (
          <option key={layer.name} value={layer.name}>
            {longType(layer)}
          </option>
        ))}
      </datalist>
    </label>
  );
}
