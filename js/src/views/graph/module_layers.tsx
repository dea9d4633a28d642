// A preview of a closed module below the graph: its layers side by side, or for repeated blocks the output of each.

import { contentsText } from "../../network/display_kind.ts";
import { relativeName } from "../../network/layer_names.ts";
import { shortType } from "../../network/network.ts";
import { formatPlural } from "../../number_format.ts";
import type { Value } from "../../plan/schema.ts";
import { useViews } from "../context.ts";
import { useLayerHover } from "../layer_hover.ts";
import { ValuePicture } from "../value_picture.tsx";
import type { ClosedBlock, GraphNode } from "./module_graph.ts";

const TILE_SIDE = 84;
/** Modules with more layers are opened instead of previewed. */
const MAX_TILES = 24;

interface LayerTile {
  readonly value: Value;
  readonly title: string;
  readonly type: string;
  readonly open: () => void;
}

export function ModuleLayers(props: { node: GraphNode; openBlock: (block: ClosedBlock) => void }) {
  const { node, openBlock } = props;
  const { state, network } = useViews();
  const values = network.value?.values;
  const several = node.blocks.length > 1;
  const all: LayerTile[] = several
    ? node.blocks.map((block) => ({
        value: block.value,
        title: block.group.title,
        type: "",
        open: () => openBlock(block),
      }))
    : node.layers.flatMap((layer) => {
        const value = values?.get(layer.name);
        const open = (): void => {
          state.tab.value = "layer";
        };
        const title = relativeName(layer.name, node.id);
        return value ? { value, title, type: shortType(layer), open } : [];
      });
  const shown = all.slice(0, MAX_TILES);
  const what = several
    ? `${node.blocks.length} blocks of the same structure`
    : formatPlural(node.layers.length, "layer");
  return (
    <section
      class="nbg-module-layers"
      aria-label={`${several ? "Blocks" : "Layers"} of ${node.id}`}
    >
      <p>
        <strong>{node.id}</strong>{" "}
        <span class="nbg-second">
          {what}
          {all.length > shown.length && `, the first ${shown.length}`} ·{" "}
          {several
            ? "double-click one to open it in place"
            : "double-click its picture to open it in place"}
        </span>
      </p>
      <div class="nbg-module-layers-list">
        {shown.map((tile) => (
          <ModuleLayerTile key={tile.value.key} {...tile} />
        ))}
      </div>
    </section>
  );
}

function ModuleLayerTile({ value, title, type, open }: LayerTile) {
  const { state } = useViews();
  const hovered = useLayerHover();
  const chosen = value.key === state.selected.value?.layer;
  return (
    <button
      type="button"
      class={chosen ? "nbg-tile nbg-chosen" : "nbg-tile"}
      aria-pressed={chosen}
      aria-label={`${value.key}, ${contentsText(value)}`}
      onPointerEnter={() => hovered.enter(value.key)}
      onPointerLeave={() => hovered.leave(value.key)}
      onClick={() => {
        state.selected.value = { layer: value.key, channel: null };
      }}
      onDblClick={open}
    >
      <ValuePicture value={value} width={TILE_SIDE} height={TILE_SIDE} minTileSide={20} />
      <span>
        <strong>{title}</strong> {type}
      </span>
    </button>
  );
}
