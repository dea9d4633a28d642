// The network as a strip from input to output picture: on one line if it fits, else in rows.

import { drawKind } from "../network/display_kind.ts";
import type { Network, Stage } from "../network/network.ts";
import { BAR_COLUMN_WIDTH } from "./bar_chart.tsx";
import { useViews } from "./context.ts";
import { Endpoints } from "./endpoints.tsx";
import {
  fitBoxes,
  fitLine,
  fitRows,
  fullMosaic,
  type Mosaic,
  NARROW,
  px,
  type StripLayout,
} from "./layout.ts";
import { ArrowColumn, isShortTitle, mapShapeOf, StageView } from "./stage.tsx";
import { StageList } from "./stage_list.tsx";
import { StageRows } from "./stage_rows.tsx";

/** The stages between the end pictures; the last stage is left out if its value is the output. */
export function middleStages(network: Network): readonly Stage[] {
  const last = network.stages.at(-1);
  const output = network.outputs.length === 1 ? network.outputs[0] : undefined;
  const value = last && network.values.get(last.key);
  const same = output !== undefined && value !== undefined && value.texture === output.texture;
  return same && network.stages.length > 1 ? network.stages.slice(0, -1) : network.stages;
}

export function Strip({ network }: { network: Network }) {
  const { width, pixelRatio } = useViews();
  const middle = middleStages(network);
  if (width.value < NARROW) return <StageList network={network} stages={middle} />;
  const line = stripLayout(network, width.value, pixelRatio.value);
  if (line !== null) return <LineStrip network={network} stages={middle} line={line} />;
  return isChain(network) ? (
    <WrappedStrip network={network} stages={middle} />
  ) : (
    <StageRows network={network} stages={middle} />
  );
}

/** Whether each stage reads only the preceding stage. */
export const isChain = (network: Network): boolean =>
  network.stages.every((stage) => stage.readTitles.length === 0);

/** CSS pixels: the padding around the strip, the gap between neighbours, and the least size of a channel's map. */
const PAD = 24;
const ARROW = 20;
const MIN_TILE = 20;

/**
 * A layout of all stages on one line, at one scale if possible; null for more than twelve stages, or if they do not
 * fit.
 */
function stripLayout(network: Network, width: number, ratio: number): StripLayout | null {
  const middle = middleStages(network);
  if (middle.length > 12) return null;
  const room = {
    width: Math.floor((width - 2 * PAD) * ratio),
    height: Math.floor(Math.min(252, Math.max(180, width * 0.21)) * ratio),
    arrow: Math.floor(ARROW * ratio),
    // A short name does not wrap; bold digits and letters are about 7.6 px wide.
    captions: middle.map(({ title }) =>
      Math.ceil(Math.max(84, isShortTitle(title) ? title.length * 7.6 : 0) * ratio),
    ),
    bars: BAR_COLUMN_WIDTH * ratio,
    tile: MIN_TILE * ratio,
    gap: Math.round(ratio),
    ratio,
  };
  const ends = network.inputs.length > 0 && network.outputs.length > 0 ? 2 : 0;
  const maps = middle.map((stage) => mapShapeOf(network.values.get(stage.key)));
  return fitLine(maps, ends, room) ?? fitBoxes(maps, ends, room);
}

interface Props {
  network: Network;
  stages: readonly Stage[];
}

function LineStrip({ network, stages, line }: Props & { line: StripLayout }) {
  const ratio = useViews().pixelRatio.value;
  const side = line.endSide / ratio;
  const gap = Math.round(ratio);
  return (
    <>
      <div class="nbg-line" role="group" aria-label="Network, from input to output">
        <Endpoints values={network.inputs} network={network} side={side} label="Input" />
        {stages.map((stage, i) => (
          <StageColumn
            key={stage.key}
            network={network}
            stage={stage}
            mosaic={line.stages[i] ?? null}
            gap={gap}
            height={line.maxHeight / ratio}
          />
        ))}
        <ArrowColumn />
        <Endpoints values={network.outputs} network={network} side={side} label="Output" />
      </div>
      {line.scale === null && <OwnScaleNote />}
    </>
  );
}

/** A note that the pictures do not have a common scale. */
const OwnScaleNote = () => (
  <p class="nbg-note nbg-own-scale">
    Each layer has its own scale. Where not all channels fit, those with the largest variance are
    shown.
  </p>
);

function StageColumn(props: Parameters<typeof StageView>[0]) {
  return (
    <>
      <ArrowColumn />
      <StageView {...props} />
    </>
  );
}

/** A long chain in rows that wrap like text: input first, output last. */
function WrappedStrip({ network, stages }: Props) {
  const { width, pixelRatio } = useViews();
  const images = [...network.inputs, ...network.outputs].filter((value) => drawKind(value).isImage);
  const sides = images.map((value) => Math.max(...value.nchw.slice(2)));
  const { columns, box } = fitRows(width.value - 2 * PAD, ARROW, sides);
  const gap = Math.round(pixelRatio.value);
  const own = (stage: Stage): Mosaic | null => {
    const maps = mapShapeOf(network.values.get(stage.key));
    const room = { width: box * pixelRatio.value, height: box * pixelRatio.value };
    return maps && fullMosaic(maps, room, gap, Math.round(MIN_TILE * pixelRatio.value));
  };
  return (
    <>
      <div
        class="nbg-wrap"
        role="group"
        aria-label="Network, from input to output"
        style={{ "--nb-columns": columns, "--nb-box": px(box) }}
      >
        <div class="nbg-first">
          <Endpoints values={network.inputs} network={network} side={box} label="Input" />
        </div>
        {stages.map((stage) => (
          <div key={stage.key}>
            <ArrowColumn />
            <StageView network={network} stage={stage} mosaic={own(stage)} gap={gap} height={box} />
          </div>
        ))}
        <div class="nbg-last">
          <ArrowColumn />
          <Endpoints values={network.outputs} network={network} side={box} label="Output" />
        </div>
      </div>
      <OwnScaleNote />
    </>
  );
}
