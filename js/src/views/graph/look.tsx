// A fast look into a closed module: its layers side by side, below the graph; of repeated blocks what each gives.

import { plural } from "../../format.ts";
import { contents } from "../../network/display.ts";
import { within } from "../../network/names.ts";
import { shortType } from "../../network/network.ts";
import type { Value } from "../../plan/schema.ts";
import { useViews } from "../context.ts";
import { Picture } from "../picture.tsx";
import { useHovered } from "../select.ts";
import type { Block, Node } from "./tree.ts";

const SIDE = 84;
/** A long module is opened rather than looked into. */
const MOST = 24;

interface Tile {
  readonly value: Value;
  readonly title: string;
  readonly type: string;
  readonly open: () => void;
}

export function Look(props: { node: Node; openBlock: (block: Block) => void }) {
  const { node, openBlock } = props;
  const { state, network } = useViews();
  const values = network.value?.values;
  const several = node.blocks.length > 1;
  const all: Tile[] = several
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
        const title = within(layer.name, node.id);
        return value ? { value, title, type: shortType(layer), open } : [];
      });
  const shown = all.slice(0, MOST);
  const what = several
    ? `${node.blocks.length} blocks of one structure`
    : plural(node.layers.length, "layer");
  return (
    <section class="nbg-look" aria-label={`${several ? "Blocks" : "Layers"} of ${node.id}`}>
      <p>
        <strong>{node.id}</strong>{" "}
        <span class="nbg-second">
          {what}
          {all.length > shown.length && `, the first ${shown.length}`} ·{" "}
          {several
            ? "a double click opens one of them in place"
            : "a double click on its picture opens it in place"}
        </span>
      </p>
      <div class="nbg-look-list">
        {shown.map((tile) => (
          <LookTile key={tile.value.key} {...tile} />
        ))}
      </div>
    </section>
  );
}

function LookTile({ value, title, type, open }: Tile) {
  const { state } = useViews();
  const hovered = useHovered();
  const chosen = value.key === state.selected.value?.layer;
  return (
    <button
      type="button"
      class={chosen ? "nbg-tile nbg-chosen" : "nbg-tile"}
      aria-pressed={chosen}
      aria-label={`${value.key}, ${contents(value)}`}
      onPointerEnter={() => hovered.enter(value.key)}
      onPointerLeave={() => hovered.leave(value.key)}
      onClick={() => {
        state.selected.value = { layer: value.key, channel: null };
      }}
      onDblClick={open}
    >
      <Picture value={value} width={SIDE} height={SIDE} tile={20} />
      <span>
        <strong>{title}</strong> {type}
      </span>
    </button>
  );
}
