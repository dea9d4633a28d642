// The graph's lines: what travels where. A skip says what travels, and can be clicked.

import { imageShape } from "../../network/network.ts";
import { useViews } from "../context.ts";
import { px } from "../layout.ts";
import type { Line, Placement } from "./boxes.ts";

export function Lines(props: { placement: Placement; zoom: number; selected: string | undefined }) {
  const { placement, zoom, selected } = props;
  const { width, height, lines } = placement;
  const skips = lines.filter(({ edge }) => edge.skip !== "");
  return (
    <>
      <svg class="nbg-edges" width={width} height={height} aria-hidden="true">
        {lines.map((line) => (
          <path
            key={nameOf(line)}
            class={
              line.edge.skip && line.edge.key === selected ? "nbg-edge nbg-travels" : "nbg-edge"
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
        <Skip key={nameOf(line)} line={line} zoom={zoom} selected={line.edge.key === selected} />
      ))}
    </>
  );
}

const nameOf = ({ edge }: Line): string => `${edge.from}\n${edge.to}\n${edge.key}`;

/** Words on a skip that are a button, the line itself for the pointer, and "+" or "cat" where it ends. */
function Skip({ line, zoom, selected }: { line: Line; zoom: number; selected: boolean }) {
  const { state, network } = useViews();
  const { edge, middle, end, from, to } = line;
  const value = network.value?.values.get(edge.key);
  const shape = value ? imageShape(value) : "";
  const select = (): void => {
    state.selected.value = { layer: edge.key, channel: null };
  };
  const full = `skip ${shape}`;
  // As large as style.css makes it.
  const letter = Math.max(6.4, 5.6 / zoom);
  const words = zoom < 0.4 ? [""] : [full, "skip", ""];
  const text = words.find((one) => one.length * letter <= middle.room);
  const label = `Skip from ${from.title} to ${to.title}: ${edge.key}, ${shape}`;
  return (
    <>
      <svg class="nbg-edges nbg-grip" width="1" height="1" aria-hidden="true">
        {/* biome-ignore lint/a11y/noStaticElementInteractions: the same as the button, larger */}
        <path d={line.path} data-skip={edge.key} onClick={select} />
      </svg>
      <button
        type="button"
        class={selected ? "nbg-skip nbg-chosen" : "nbg-skip"}
        data-key={edge.key}
        tabIndex={-1}
        aria-pressed={selected}
        aria-label={label}
        title={label}
        style={{ left: px(middle.x), top: px(middle.y) }}
        onClick={select}
      >
        {text}
      </button>
      {to.kind !== "merge" && (
        <span class="nbg-joins" aria-hidden="true" style={{ left: px(end.x), top: px(end.y) }}>
          {edge.skip}
        </span>
      )}
    </>
  );
}
