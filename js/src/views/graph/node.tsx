// One node of the graph: a picture with a caption, a closed module with a stacked edge, a merge operator, or a step on
// an edge.

import { contentsText, displayStyle, imageShapeText } from "../../network/display_kind.ts";
import type { Network } from "../../network/network.ts";
import { pythonLayerOf } from "../../network/python_layers.ts";
import { formatPlural } from "../../number_format.ts";
import type { Value } from "../../plan/schema.ts";
import { useViews } from "../context.ts";
import { EditBadgeSlot } from "../edit_badge_slot.tsx";
import { RightIcon } from "../icons.tsx";
import { ImageRange } from "../image_range.tsx";
import { useLayerHover } from "../layer_hover.ts";
import { px } from "../layout.ts";
import { LayerBadge } from "../parity.tsx";
import { StageCostBar } from "../profile/cost_bar.tsx";
import { StageLayers, shownLayer, withWordBreaks } from "../stage.tsx";
import { useEndpointSide, ValuePicture } from "../value_picture.tsx";
import type { GraphNode } from "./module_graph.ts";
import type { PlacedNode } from "./node_boxes.ts";

interface NodeProps {
  placedNode: PlacedNode;
  isSelected: boolean;
  /** The node is the graph's tab stop. */
  isTabStop: boolean;
  /** The node is inside the window. */
  isVisible: boolean;
  /** The level of detail; a node seen from far shows only its name. */
  detail: "picture" | "name" | "nothing";
  select: (placed: PlacedNode) => void;
  openNode: (placed: PlacedNode) => void;
}

const KIND_CSS_CLASSES: Readonly<Partial<Record<GraphNode["kind"], string>>> = {
  merge: "nbg-token",
  step: "nbg-token nbg-on-line",
  group: "nbg-stack",
};

/** The value of the selected layer if the node contains it; else the node's last value. */
function shownValue(
  node: GraphNode,
  network: Network | null,
  selectedLayer: string | undefined,
): Value {
  const [stage] = node.stages;
  if (node.kind !== "stage" || stage === undefined) return node.value;
  return network?.values.get(shownLayer(stage, selectedLayer)) ?? node.value;
}

/** "down2, 6 layers, closed: down2.5, 24 channels of 64×64". */
function ariaLabel({ kind, title, layers, blocks }: GraphNode, value: Value): string {
  const what = `${value.key}, ${contentsText(value)}`;
  if (blocks.length > 1) return `${title}, blocks of the same structure, closed: ${what}`;
  if (kind === "group") return `${title}, ${formatPlural(layers.length, "layer")}, closed: ${what}`;
  return title === value.key ? what : `${title}: ${what}`;
}

export function NodeView(props: NodeProps) {
  const { placedNode, isSelected, isTabStop, isVisible, detail, select, openNode } = props;
  const { network, state } = useViews();
  const hovered = useLayerHover();
  const { node, x, y, width, height } = placedNode;
  const value = shownValue(node, network.value, state.selected.value?.layer);
  const share = useEndpointSide(value, height) / height;
  const sign = node.kind === "merge" || node.kind === "step";
  const python = node.kind !== "group" && pythonLayerOf(state.plan.value, value) !== undefined;
  const kind = node.blocks.length > 1 ? "nbg-stack nbg-many" : KIND_CSS_CLASSES[node.kind];
  const classes = [kind, isSelected && "nbg-chosen", python && "nbg-by-python"];
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
        aria-pressed={isSelected}
        aria-label={ariaLabel(node, value) + (python ? ", computed in Python" : "")}
        tabIndex={isTabStop ? 0 : -1}
        title={sign || detail !== "picture" ? `${node.title}, ${imageShapeText(value)}` : undefined}
        onClick={() => select(placedNode)}
        onDblClick={() => openNode(placedNode)}
      >
        {sign ? (
          <span>{node.title}</span>
        ) : detail === "name" ? (
          <span class="nbg-block-name" title={node.title}>
            {withWordBreaks(node.title)}
          </span>
        ) : (
          isVisible &&
          detail === "picture" && (
            <ValuePicture
              value={value}
              width={width * share}
              height={height * share}
              minTileSide={20}
              showTopValues={node.kind === "output"}
            />
          )
        )}
      </button>
      {sign && <EditBadgeSlot layer={value.key} />}
      {!sign && <StageCostBar layers={node.layers} />}
      {!sign && <NodeCaption placedNode={placedNode} value={value} openNode={openNode} />}
    </div>
  );
}

function NodeCaption(props: {
  placedNode: PlacedNode;
  value: Value;
  openNode: (placed: PlacedNode) => void;
}) {
  const { placedNode, value, openNode } = props;
  const { node, captionSide } = placedNode;
  const { state } = useViews();
  const [stage] = node.stages;
  const own = node.layers.filter(({ python }) => python).length;
  const select = (layer: string): void => {
    state.selected.value = { layer, channel: null };
  };
  return (
    <div class={`nbg-caption nbg-at-${captionSide}`}>
      <strong class="nbg-name" title={node.title}>
        {withWordBreaks(node.title)}
      </strong>
      <span class="nbg-named">
        {node.kind === "input" && node.title !== value.key && `${value.key} `}
        {imageShapeText(value)}{" "}
        {node.kind === "group" ? (
          <EditBadgeSlot layer={value.key} layers={node.layers} />
        ) : (
          <LayerBadge layer={value.key} />
        )}
      </span>
      {node.kind === "group" && (
        <button
          type="button"
          class="nbg-open"
          tabIndex={-1}
          aria-expanded="false"
          aria-label={`Open ${node.title} here`}
          onClick={() => openNode(placedNode)}
        >
          <RightIcon />{" "}
          {node.blocks.length > 1
            ? `${node.blocks.length} blocks`
            : formatPlural(node.layers.length, "layer")}
          {own > 0 && `, ${own} in Python`}
        </button>
      )}
      {displayStyle(value).isImage && (
        <span class="nbg-node-range">
          <ImageRange value={value} />
        </span>
      )}
      {node.kind !== "group" && stage && (
        <StageLayers stage={stage} currentLayer={value.key} select={select} />
      )}
    </div>
  );
}
