// The Network tab: which form the network has, strip or graph, and a layer found by its name.

import { useId } from "preact/hooks";
import { longType, type Network } from "../network/network.ts";
import type { Form } from "../state.ts";
import { Choice } from "./choice.tsx";
import { useViews } from "./context.ts";
import { leaveFinder } from "./finder.ts";
import { Graph } from "./graph/graph.tsx";
import { NARROW } from "./layout.ts";
import { Panel } from "./panel.tsx";
import { isChain, Strip } from "./strip.tsx";

const FORMS: readonly (readonly [Form, string])[] = [
  ["strip", "Strip"],
  ["graph", "Graph"],
];

export function NetworkTab({ network }: { network: Network }) {
  return (
    <>
      <NetworkView network={network} />
      <Panel network={network} />
    </>
  );
}

function NetworkView({ network }: { network: Network }) {
  const { state, width } = useViews();
  const suits = width.value < NARROW || isChain(network) ? "strip" : "graph";
  const form = state.form.value ?? suits;
  return (
    <>
      <div class="nbg-forms">
        <Choice
          label="Form of the network"
          items={FORMS}
          now={form}
          choose={(name) => {
            state.form.value = name;
          }}
        />
        <Find network={network} />
      </div>
      {form === "graph" ? <Graph network={network} /> : <Strip network={network} />}
    </>
  );
}

/** A layer by name or type; the graph opens the modules around it. */
function Find({ network }: { network: Network }) {
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
    state.sought.value = found.name;
    state.selected.value = { layer: found.name, channel: null };
    leaveFinder(root);
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
        // A name of the list that was picked; with Enter also a part of a name, or a type.
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
