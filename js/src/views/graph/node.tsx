// One node of the graph: a picture with words, a closed module with a stacked edge, a sign, or a step on a line.

import { plural } from "../../format.ts";
import { contents, displayOf, imageShape } from "../../network/display.ts";
import type { Network } from "../../network/network.ts";
import { pythonOf } from "../../network/python.ts";
import type { Value } from "../../plan/schema.ts";
import { Bent } from "../bent.tsx";
import { useViews } from "../context.ts";
import { Right } from "../icons.tsx";
import { ImageRange } from "../image_range.tsx";
import { px } from "../layout.ts";
import { Badge } from "../parity.tsx";
import { Picture, useEndSide } from "../picture.tsx";
import { StageBar } from "../profile/bars.tsx";
import { useHovered } from "../select.ts";
import { broken, Parts, shownLayer } from "../stage.tsx";
import type { Placed } from "./boxes.ts";
import type { Node } from "./tree.ts";

interface NodeProps {
  placed: Placed;
  chosen: boolean;
  /** The Tab key comes here. */
  stop: boolean;
  /** It is in the window. */
  drawn: boolean;
  /** Seen from far: its name, no picture. */
  shows: "picture" | "name" | "nothing";
  select: (placed: Placed) => void;
  enter: (placed: Placed) => void;
}

const KINDS: Readonly<Partial<Record<Node["kind"], string>>> = {
  merge: "nbg-token",
  step: "nbg-token nbg-on-line",
  group: "nbg-stack",
};

/** The value of the layer that is looked at, where the node has it; else the node's last. */
function shownValue(node: Node, network: Network | null, selected: string | undefined): Value {
  const [stage] = node.stages;
  if (node.kind !== "stage" || stage === undefined) return node.value;
  return network?.values.get(shownLayer(stage, selected)) ?? node.value;
}

/** "down2, 6 layers, closed: down2.5, 24 channels of 64×64". */
function spoken({ kind, title, layers, blocks }: Node, value: Value): string {
  const what = `${value.key}, ${contents(value)}`;
  if (blocks.length > 1) return `${title}, blocks of one structure, closed: ${what}`;
  if (kind === "group") return `${title}, ${plural(layers.length, "layer")}, closed: ${what}`;
  return title === value.key ? what : `${title}: ${what}`;
}

export function NodeView(props: NodeProps) {
  const { placed, chosen, stop, drawn, shows, select, enter } = props;
  const { network, state } = useViews();
  const hovered = useHovered();
  const { node, x, y, width, height } = placed;
  const value = shownValue(node, network.value, state.selected.value?.layer);
  const share = useEndSide(value, height) / height;
  const sign = node.kind === "merge" || node.kind === "step";
  const python = node.kind !== "group" && pythonOf(state.plan.value, value) !== undefined;
  const kind = node.blocks.length > 1 ? "nbg-stack nbg-many" : KINDS[node.kind];
  const classes = [kind, chosen && "nbg-chosen", python && "nbg-by-python"];
  return (
    <div
      class={["nbg-node", ...classes].filter(Boolean).join(" ")}
      data-node={node.id}
      data-kind={node.kind}
      data-layer={value.key}
      data-layers={node.layers.map(({ name }) => name).join("\n")}
      style={{ left: px(x), top: px(y), width: px(width), height: px(height) }}
      onPointerEnter={() => hovered.enter(value.key)}
      onPointerLeave={() => hovered.leave(value.key)}
    >
      <button
        type="button"
        class="nbg-picture"
        aria-pressed={chosen}
        aria-label={spoken(node, value) + (python ? ", computed in Python" : "")}
        tabIndex={stop ? 0 : -1}
        title={sign || shows !== "picture" ? `${node.title}, ${imageShape(value)}` : undefined}
        onClick={() => select(placed)}
        onDblClick={() => enter(placed)}
      >
        {sign ? (
          <span>{node.title}</span>
        ) : shows === "name" ? (
          <span class="nbg-block-name" title={node.title}>
            {broken(node.title)}
          </span>
        ) : (
          drawn &&
          shows === "picture" && (
            <Picture
              value={value}
              width={width * share}
              height={height * share}
              tile={20}
              top={node.kind === "output"}
            />
          )
        )}
      </button>
      {sign && <Bent layer={value.key} />}
      {!sign && <StageBar layers={node.layers} />}
      {!sign && <Words placed={placed} value={value} enter={enter} />}
    </div>
  );
}

function Words(props: { placed: Placed; value: Value; enter: (placed: Placed) => void }) {
  const { placed, value, enter } = props;
  const { node, words } = placed;
  const { state } = useViews();
  const [stage] = node.stages;
  const own = node.layers.filter(({ python }) => python).length;
  const select = (layer: string): void => {
    state.selected.value = { layer, channel: null };
  };
  return (
    <div class={`nbg-caption nbg-at-${words}`}>
      <strong class="nbg-name" title={node.title}>
        {broken(node.title)}
      </strong>
      <span class="nbg-named">
        {node.kind === "input" && node.title !== value.key && `${value.key} `}
        {imageShape(value)}{" "}
        {node.kind === "group" ? (
          <Bent layer={value.key} layers={node.layers} />
        ) : (
          <Badge layer={value.key} />
        )}
      </span>
      {node.kind === "group" && (
        <button
          type="button"
          class="nbg-open"
          tabIndex={-1}
          aria-expanded="false"
          aria-label={`Open ${node.title} here`}
          onClick={() => enter(placed)}
        >
          <Right />{" "}
          {node.blocks.length > 1
            ? `${node.blocks.length} blocks`
            : plural(node.layers.length, "layer")}
          {own > 0 && `, ${own} in Python`}
        </button>
      )}
      {displayOf(value).image && (
        <span class="nbg-node-range">
          <ImageRange value={value} />
        </span>
      )}
      {node.kind !== "group" && stage && <Parts stage={stage} shown={value.key} select={select} />}
    </div>
  );
}
