// The Network tab: the whole network from a picture to a picture, on one line where it fits, else in rows.
import { NARROW } from "./bar.tsx";
import { useViews } from "./context.ts";
import { Ends } from "./ends.tsx";
import { fitLine, type Line } from "./layout.ts";
import { List } from "./list.tsx";
import type { Network, Stage } from "./network.ts";
import { Rows } from "./rows.tsx";
import { ArrowColumn, BARS, isShort, mapsOf, StageView } from "./stage.tsx";

/** The stages between the end pictures: the last one is the output's own where they are one value. */
export function middleOf(network: Network): readonly Stage[] {
  const last = network.stages.at(-1);
  const output = network.outputs.length === 1 ? network.outputs[0] : undefined;
  const value = last && network.values.get(last.key);
  const same = output !== undefined && value !== undefined && value.texture === output.texture;
  return same && network.stages.length > 1 ? network.stages.slice(0, -1) : network.stages;
}

export function NetworkView({ network }: { network: Network }) {
  const { width, ratio } = useViews();
  const middle = middleOf(network);
  if (width.value < NARROW) return <List network={network} stages={middle} />;
  const pad = 24;
  const room = {
    width: Math.floor((width.value - 2 * pad) * ratio.value),
    height: Math.floor(Math.min(252, Math.max(180, width.value * 0.21)) * ratio.value),
    arrow: Math.floor(20 * ratio.value),
    // A short name is not broken; bold digits and letters are about 7.6 px wide.
    captions: middle.map(({ title }) =>
      Math.ceil(Math.max(84, isShort(title) ? title.length * 7.6 : 0) * ratio.value),
    ),
    bars: BARS.width * ratio.value,
    gap: Math.round(ratio.value),
    ratio: ratio.value,
  };
  const ends = network.inputs.length > 0 && network.outputs.length > 0 ? 2 : 0;
  const maps = middle.map((stage) => mapsOf(network.values.get(stage.key)));
  const line = middle.length <= 12 ? fitLine(maps, ends, room) : null;
  if (line !== null) return <OneLine network={network} stages={middle} line={line} />;
  return <Rows network={network} stages={middle} />;
}

function OneLine(props: { network: Network; stages: readonly Stage[]; line: Line }) {
  const { network, stages, line } = props;
  const ratio = useViews().ratio.value;
  const side = line.ends / ratio;
  const gap = Math.round(ratio);
  return (
    <div class="nbg-line" role="group" aria-label="Network, from input to output">
      <Ends values={network.inputs} network={network} side={side} word="Input" />
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
      <Ends values={network.outputs} network={network} side={side} word="Output" />
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
