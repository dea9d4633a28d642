// The graph's edges. A skip connection is labelled with its tensor's shape, and can be clicked.

import { imageShapeText } from "../../network/display_kind.ts";
import { useViews } from "../context.ts";
import { px } from "../layout.ts";
import { type EdgeLine, type GraphLayout, OPERATOR_SIZE } from "./node_boxes.ts";

export function EdgeLines(props: {
  layout: GraphLayout;
  zoom: number;
  selectedKey: string | undefined;
}) {
  const { layout, zoom, selectedKey } = props;
  const { width, height, lines } = layout;
  const skips = lines.filter(({ edge }) => edge.skipOperator !== "");
  const values = useViews().network.value?.values;
  const words = skipLabels(skips, zoom, (key) => {
    const value = values?.get(key);
    return value ? imageShapeText(value) : "";
  });
  return (
    <>
      <svg class="nbg-edges" width={width} height={height} aria-hidden="true">
        {lines.map((line) => (
          <path
            key={lineKey(line)}
            class={
              line.edge.skipOperator && line.edge.key === selectedKey
                ? "nbg-edge nbg-travels"
                : "nbg-edge"
            }
            d={line.path}
            data-from={line.from.id}
            data-to={line.to.id}
            data-key={line.edge.key}
            data-steps={line.steps.map(({ id }) => id).join("\n")}
          />
        ))}
      </svg>
      {skips.map((line) => (
        <SkipConnection
          key={lineKey(line)}
          line={line}
          text={words.get(line) ?? ""}
          isSelected={line.edge.key === selectedKey}
        />
      ))}
    </>
  );
}

const lineKey = ({ edge }: EdgeLine): string => `${edge.from}\n${edge.to}\n${edge.key}`;

/**
 * The label of each skip connection: its shape, shortened or omitted if there is no room or another label is in the
 * way.
 */
function skipLabels(
  skips: readonly EdgeLine[],
  zoom: number,
  shapeOf: (key: string) => string,
): Map<EdgeLine, string> {
  const found = new Map<EdgeLine, string>();
  // The font size in style.css.
  const letter = Math.max(6.4, 5.6 / zoom);
  const height = Math.max(16, 14 / zoom);
  const taken = skips
    .filter(({ to }) => to.kind !== "merge")
    .map(({ endLabelPosition }) => ({ ...endLabelPosition, half: OPERATOR_SIZE.width / 2 }));
  // Short ones first: a longer one that arches over them has more room.
  for (const line of [...skips].sort((a, b) => a.labelPosition.room - b.labelPosition.room)) {
    const { x, y, room } = line.labelPosition;
    const isFree = (text: string): boolean =>
      text.length * letter <= room &&
      taken.every(
        (one) =>
          Math.abs(one.y - y) >= height ||
          Math.abs(one.x - x) >= one.half + (text.length * letter) / 2,
      );
    const text = [`skip ${shapeOf(line.edge.key)}`, "skip"].find(isFree) ?? "";
    found.set(line, text);
    if (text !== "") taken.push({ x, y, half: (text.length * letter) / 2 + 4 });
  }
  return found;
}

/** A skip connection: its label as a button, its line as a pointer target, and "+" or "cat" at its end. */
function SkipConnection({
  line,
  text,
  isSelected,
}: {
  line: EdgeLine;
  text: string;
  isSelected: boolean;
}) {
  const { state, network } = useViews();
  const { edge, labelPosition, endLabelPosition, from, to } = line;
  const value = network.value?.values.get(edge.key);
  const shape = value ? imageShapeText(value) : "";
  const select = (): void => {
    state.selected.value = { layer: edge.key, channel: null };
  };
  const label = `Skip from ${from.title} to ${to.title}: ${edge.key}, ${shape}`;
  return (
    <>
      <svg class="nbg-edges nbg-grip" width="1" height="1" aria-hidden="true">
        {/* biome-ignore lint/a11y/noStaticElementInteractions: the same as the button, larger */}
        <path d={line.path} data-skip={edge.key} onClick={select} />
      </svg>
      <button
        type="button"
        class={isSelected ? "nbg-skip nbg-chosen" : "nbg-skip"}
        data-key={edge.key}
        tabIndex={-1}
        aria-pressed={isSelected}
        aria-label={label}
        title={label}
        style={{ left: px(labelPosition.x), top: px(labelPosition.y) }}
        onClick={select}
      >
        {text}
      </button>
      {to.kind !== "merge" && (
        <span
          class="nbg-skip-operator"
          aria-hidden="true"
          style={{ left: px(endLabelPosition.x), top: px(endLabelPosition.y) }}
        >
          {edge.skipOperator}
        </span>
      )}
    </>
  );
}
