// The network as a strip: from a picture to a picture, on one line where it fits, else in rows.

import type { Network, Stage } from "../network/network.ts";
import { NARROW } from "./bar.tsx";
import { BARS_WIDTH } from "./bars.tsx";
import { useViews } from "./context.ts";
import { Endpoints } from "./endpoints.tsx";
import { fitLine, type Line } from "./layout.ts";
import { List } from "./list.tsx";
import { Rows } from "./rows.tsx";
import { ArrowColumn, isShort, mapsOf, StageView } from "./stage.tsx";

/** The stages between the end pictures: the last one is the output's own where they are one value. */
export function middleOf(network: Network): readonly Stage[] {
  const last = network.stages.at(-1);
  const output = network.outputs.length === 1 ? network.outputs[0] : undefined;
  const value = last && network.values.get(last.key);
  const same = output !== undefined && value !== undefined && value.texture === output.texture;
  return same && network.stages.length > 1 ? network.stages.slice(0, -1) : network.stages;
}

export function Strip({ network }: { network: Network }) {
  const { width, ratio } = useViews();
  const middle = middleOf(network);
  if (width.value < NARROW) return <List network={network} stages={middle} />;
  const line = lineOf(network, width.value, ratio.value);
  if (line !== null) return <OneLine network={network} stages={middle} line={line} />;
  return <Rows network={network} stages={middle} />;
}

/** All stages on one line; null for more than twelve, or where they don't fit. */
export function lineOf(network: Network, width: number, ratio: number): Line | null {
  const middle = middleOf(network);
  const pad = 24;
  const room = {
    width: Math.floor((width - 2 * pad) * ratio),
    height: Math.floor(Math.min(252, Math.max(180, width * 0.21)) * ratio),
    arrow: Math.floor(20 * ratio),
    // A short name is not broken; bold digits and letters are about 7.6 px wide.
    captions: middle.map(({ title }) =>
      Math.ceil(Math.max(84, isShort(title) ? title.length * 7.6 : 0) * ratio),
    ),
    bars: BARS_WIDTH * ratio,
    gap: Math.round(ratio),
    ratio,
  };
  const ends = network.inputs.length > 0 && network.outputs.length > 0 ? 2 : 0;
  const maps = middle.map((stage) => mapsOf(network.values.get(stage.key)));
  return middle.length <= 12 ? fitLine(maps, ends, room) : null;
}

function OneLine(props: { network: Network; stages: readonly Stage[]; line: Line }) {
  const { network, stages, line } = props;
  const ratio = useViews().ratio.value;
  const side = line.ends / ratio;
  const gap = Math.round(ratio);
  return (
    <div class="nbg-line" role="group" aria-label="Network, from input to output">
      <Endpoints values={network.inputs} network={network} side={side} word="Input" />
      {stages.map((stage, i) => (
        <StageColumn
          key={stage.key}
          network={network}
          stage={stage}
          mosaic={line.stages[i] ?? null}
          gap={gap}
          height={line.tallest / ratio}
        />
      ))}
      <ArrowColumn />
      <Endpoints values={network.outputs} network={network} side={side} word="Output" />
    </div>
  );
}

function StageColumn(props: Parameters<typeof StageView>[0]) {
  return (
    <>
      <ArrowColumn />
      <StageView {...props} />
    </>
  );
}
