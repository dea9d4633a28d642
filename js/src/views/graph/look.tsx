// A fast look into a closed module: its layers side by side, below the graph.

import { plural } from "../../format.ts";
import { contents, shortType, within } from "../../network/network.ts";
import { useViews } from "../context.ts";
import { Picture } from "../picture.tsx";
import { useHovered } from "../select.ts";
import type { Node } from "./tree.ts";

const SIDE = 84;
/** A long module is opened rather than looked into. */
const MOST = 24;

export function Look({ node }: { node: Node }) {
  const { state, network } = useViews();
  const hovered = useHovered();
  const selected = state.selected.value?.layer;
  const values = network.value?.values;
  const shown = node.layers.slice(0, MOST);
  const rest = node.layers.length - shown.length;
  return (
    <section class="nbg-look" aria-label={`Layers of ${node.id}`}>
      <p>
        <strong>{node.id}</strong>{" "}
        <span class="nbg-second">
          {plural(node.layers.length, "layer")}
          {rest > 0 && `, the first ${shown.length}`} · a double click on its picture opens it in
          place
        </span>
      </p>
      <div class="nbg-look-list">
        {shown.map((layer) => {
          const value = values?.get(layer.name);
          if (value === undefined) return null;
          return (
            <button
              type="button"
              key={layer.name}
              class={layer.name === selected ? "nbg-tile nbg-chosen" : "nbg-tile"}
              aria-pressed={layer.name === selected}
              aria-label={`${layer.name}, ${contents(value)}`}
              onPointerEnter={() => hovered.enter(layer.name)}
              onPointerLeave={() => hovered.leave(layer.name)}
              onClick={() => {
                state.selected.value = { layer: layer.name, channel: null };
              }}
              onDblClick={() => {
                state.tab.value = "layer";
              }}
            >
              <Picture value={value} width={SIDE} height={SIDE} tile={20} />
              <span>
                <strong>{within(layer.name, node.id)}</strong> {shortType(layer)}
              </span>
            </button>
          );
        })}
      </div>
    </section>
  );
}
