// The network as a strip from input to output picture: on one line if it fits, else in rows.

import { displayStyle } from "../network/display_kind.ts";
import type { Network, Stage } from "../network/network.ts";
import { BAR_COLUMN_WIDTH } from "./bar_chart.tsx";
import { useViews } from "./context.ts";
import { Endpoints } from "./endpoints.tsx";
import {
  boxedLineLayout,
  fullMosaic,
  type Mosaic,
  NARROW_WIDTH,
  oneLineLayout,
  px,
  rowLayout,
  type StripLayout,
} from "./layout.ts";
import { ArrowColumn, isShortTitle, mapShapeOf, StageView } from "./stage.tsx";
import { StageList } from "./stage_list.tsx";
import { StageRows } from "./stage_rows.tsx";

/** The stages between the end pictures; the last stage is left out if its value is the output. */
export function middleStages(network: Network): readonly Stage[] {
  const last = network.stages.at(-1);
  const output = network.outputs.length === 1 ? network.outputs[0] : undefined;
  const value = last && network.values.get(last.valueKey);
  const same = output !== undefined && value !== undefined && value.texture === output.texture;
  return same && network.stages.length > 1 ? network.stages.slice(0, -1) : network.stages;
}

export function Strip({ network }: { network: Network }) {
  const { width, pixelRatio } = useViews();
  const middle = middleStages(network);
  if (width.value < NARROW_WIDTH) return <StageList network={network} stages={middle} />;
  const line = stripLayout(network, width.value, pixelRatio.value);
  if (line !== null) return <LineStrip network={network} stages={middle} layout={line} />;
  return isChain(network) ? (
    <WrappedStrip network={network} stages={middle} />
  ) : (
    <StageRows network={network} stages={middle} />
  );
}

/** Whether each stage reads only the preceding stage. */
export const isChain = (network: Network): boolean =>
  network.stages.every((stage) => stage.inputTitles.length === 0);

/** CSS pixels: the padding around the strip, the gap between neighbours, and the least size of a channel's map. */
const STRIP_PADDING = 24;
const ARROW_COLUMN_WIDTH = 20;
const MIN_TILE_SIDE = 20;

/**
 * A layout of all stages on one line, at one scale if possible; null for more than twelve stages, or if they do not
 * fit.
 */
function stripLayout(network: Network, width: number, pixelRatio: number): StripLayout | null {
  const middle = middleStages(network);
  if (middle.length > 12) return null;
  const room = {
    width: Math.floor((width - 2 * STRIP_PADDING) * pixelRatio),
    height: Math.floor(Math.min(252, Math.max(180, width * 0.21)) * pixelRatio),
    arrowWidth: Math.floor(ARROW_COLUMN_WIDTH * pixelRatio),
    // A short name does not wrap; bold digits and letters are about 7.6 px wide.
    captionWidths: middle.map(({ title }) =>
      Math.ceil(Math.max(84, isShortTitle(title) ? title.length * 7.6 : 0) * pixelRatio),
    ),
    barsWidth: BAR_COLUMN_WIDTH * pixelRatio,
    minTileSide: MIN_TILE_SIDE * pixelRatio,
    gap: Math.round(pixelRatio),
    pixelRatio,
  };
  const ends = network.inputs.length > 0 && network.outputs.length > 0 ? 2 : 0;
  const maps = middle.map((stage) => mapShapeOf(network.values.get(stage.valueKey)));
  return oneLineLayout(maps, ends, room) ?? boxedLineLayout(maps, ends, room);
}

interface Props {
  network: Network;
  stages: readonly Stage[];
}

function LineStrip({ network, stages, layout }: Props & { layout: StripLayout }) {
  const ratio = useViews().pixelRatio.value;
  const side = layout.maxEndpointSide / ratio;
  const gap = Math.round(ratio);
  return (
    <>
      <div class="nbg-line" role="group" aria-label="Network, from input to output">
        <Endpoints values={network.inputs} network={network} side={side} label="Input" />
        {stages.map((stage, i) => (
          <StageColumn
            key={stage.valueKey}
            network={network}
            stage={stage}
            mosaic={layout.mosaics[i] ?? null}
            gap={gap}
            height={layout.maxHeight / ratio}
          />
        ))}
        <ArrowColumn />
        <Endpoints values={network.outputs} network={network} side={side} label="Output" />
      </div>
      {layout.scale === null && <OwnScaleNote />}
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
  const images = [...network.inputs, ...network.outputs].filter(
    (value) => displayStyle(value).isImage,
  );
  const sides = images.map((value) => Math.max(...value.nchw.slice(2)));
  const { columns, box } = rowLayout(width.value - 2 * STRIP_PADDING, ARROW_COLUMN_WIDTH, sides);
  const gap = Math.round(pixelRatio.value);
  const own = (stage: Stage): Mosaic | null => {
    const maps = mapShapeOf(network.values.get(stage.valueKey));
    const room = { width: box * pixelRatio.value, height: box * pixelRatio.value };
    return maps && fullMosaic(maps, room, gap, Math.round(MIN_TILE_SIDE * pixelRatio.value));
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
          <div key={stage.valueKey}>
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
