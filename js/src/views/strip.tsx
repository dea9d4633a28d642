// The Network tab: the whole network from a picture to a picture, on one line where it fits, else in rows.
import type { Layer, Value } from "../plan.ts";
import { Bars, NumberPicture } from "./bars.tsx";
import { useViews } from "./context.ts";
import { Arrow, Right } from "./icons.tsx";
import { boxMosaic, fitLine, type Line, type Maps, type Mosaic } from "./layout.ts";
import { ImageRange } from "./maps.tsx";
import {
  contents,
  imageShape,
  leafName,
  longType,
  type Network,
  pictureOf,
  type Stage,
  settings,
  shortType,
} from "./network.ts";
import { Picture, StageMaps } from "./picture.tsx";
import { useHovered } from "./select.ts";

const NARROW = 520;
const BARS = { width: 54, most: 24, thickness: 12 };
const BOX = 132;

/** The layer of a stage that is shown: the selected one, else the last. */
function shownLayer(stage: Stage, selected: string | undefined): string {
  return stage.layers.find((layer) => layer.name === selected)?.name ?? stage.key;
}

/** The stages between the end pictures: the last one is the output's own where they are one value. */
export function middleOf(network: Network): readonly Stage[] {
  const last = network.stages.at(-1);
  const output = network.outputs.length === 1 ? network.outputs[0] : undefined;
  const value = last && network.values.get(last.key);
  const same = output !== undefined && value !== undefined && value.texture === output.texture;
  return same && network.stages.length > 1 ? network.stages.slice(0, -1) : network.stages;
}

const mapsOf = (value: Value | undefined): Maps | null => {
  if (value === undefined || pictureOf(value) !== "maps") return null;
  const [, channels, height, width] = value.layout.frame;
  return { channels, height, width };
};

export function NetworkView({ network }: { network: Network }) {
  const { width, ratio } = useViews();
  const middle = middleOf(network);
  if (width.value < NARROW) return <List network={network} stages={middle} />;
  const pad = 24;
  const room = {
    width: Math.floor((width.value - 2 * pad) * ratio.value),
    height: Math.floor(Math.min(252, Math.max(180, width.value * 0.21)) * ratio.value),
    arrow: Math.floor(28 * ratio.value),
    caption: Math.floor(92 * ratio.value),
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
          height={side}
        />
      ))}
      <ArrowColumn />
      <Ends values={network.outputs} network={network} side={side} word="Output" />
    </div>
  );
}

const ArrowColumn = () => (
  <div class="nbg-arrow">
    <Arrow />
  </div>
);

function StageColumn(props: {
  network: Network;
  stage: Stage;
  mosaic: Mosaic | null;
  gap: number;
  height: number;
}) {
  return (
    <>
      <ArrowColumn />
      <StageView {...props} />
    </>
  );
}

/** One stage: its picture, and below it what it is. */
function StageView(props: {
  network: Network;
  stage: Stage;
  mosaic: Mosaic | null;
  gap: number;
  height: number;
}) {
  const { network, stage, gap, height } = props;
  const views = useViews();
  const hovered = useHovered();
  const selected = views.state.selected.value?.layer;
  const name = shownLayer(stage, selected);
  const value = network.values.get(name) ?? network.values.get(stage.key);
  if (value === undefined) return null;
  const maps = mapsOf(value);
  const mosaic = props.mosaic !== null && maps !== null ? props.mosaic : null;
  const own = maps !== null && mosaic === null
    ? boxMosaic(maps, { width: BOX * views.ratio.value, height: BOX * views.ratio.value }, gap, Math.round(20 * views.ratio.value))
    : null;
  const chosen = stage.layers.some((layer) => layer.name === selected);
  const select = (layer: string): void => {
    views.state.selected.value = { layer, channel: null };
  };
  const open = (): void => {
    select(name);
    views.state.tab.value = "layer";
  };
  const drawn = mosaic ?? own;
  return (
    <div
      class={chosen ? "nbg-stage nbg-chosen" : "nbg-stage"}
      data-layer={name}
      onPointerEnter={() => hovered.enter(name)}
      onPointerLeave={() => hovered.leave(name)}
    >
      <div class="nbg-shown">
        <button
          type="button"
          class="nbg-picture"
          aria-pressed={chosen}
          aria-label={`${name}, ${contents(value)}`}
          tabIndex={chosen ? 0 : -1}
          onClick={() => select(name)}
          onDblClick={open}
        >
          {drawn !== null ? (
            <StageMaps value={value} mosaic={drawn} gap={gap} />
          ) : (
            <SmallPicture value={value} height={height} />
          )}
        </button>
      </div>
      <div class="nbg-caption">
        <strong class="nbg-name">{stage.title}</strong>
        <span>{imageShape(value)}</span>
        <Parts stage={stage} shown={name} select={select} />
        {drawn !== null && drawn.shown < value.layout.frame[1] && (
          <span>
            {drawn.shown} of {value.layout.frame[1]}
          </span>
        )}
        {stage.reads.length > 0 && <span class="nbg-reads">reads {stage.reads.join(", ")}</span>}
      </div>
    </div>
  );
}

/** What isn't maps: bars of a vector, or a number. */
function SmallPicture({ value, height }: { value: Value; height: number }) {
  if (pictureOf(value) === "number") return <NumberPicture value={value} />;
  const length = value.layout.frame[1];
  const most = Math.min(length, BARS.most, Math.max(4, Math.floor(height / 6)));
  const tall = Math.min(height, most * BARS.thickness);
  const label = `${value.key}, ${contents(value)}`;
  return <Bars value={value} width={BARS.width} height={tall} most={most} label={label} />;
}

/** Conv·BN·ReLU, each a way to show that layer. */
function Parts(props: { stage: Stage; shown: string; select: (layer: string) => void }) {
  const { stage, shown, select } = props;
  const part = (layer: Layer) => (
    <button
      type="button"
      key={layer.name}
      class={layer.name === shown ? "nbg-part nbg-current" : "nbg-part"}
      tabIndex={-1}
      title={`${layer.name} ${longType(layer)}${layer.description ? `(${layer.description})` : ""}`}
      onClick={() => select(layer.name)}
    >
      {shortType(layer)}
    </button>
  );
  return (
    <span class="nbg-parts">
      {stage.layers.map((layer, i) => [i > 0 ? "·" : "", part(layer)])}
    </span>
  );
}

/** Input or output pictures, one below the other where there are several. */
function Ends(props: { values: readonly Value[]; network: Network; side: number; word: string }) {
  const { values, network, side, word } = props;
  const many = values.length;
  const room = many > 1 ? (side - (many - 1) * 8) / many : side;
  const last = word === "Output" ? network.stages.at(-1) : undefined;
  return (
    <div class="nbg-stage nbg-end">
      <div class="nbg-shown">
        {values.map((value) => (
          <div class="nbg-image" key={value.key} data-layer={value.key}>
            <Picture value={value} width={side} height={room} tile={20} top={word === "Output"} />
          </div>
        ))}
      </div>
      <div class="nbg-caption">
        <strong class="nbg-name">{word}</strong>
        {values.map((value) => (
          <EndCaption key={value.key} value={value} named={many > 1} stage={last} />
        ))}
      </div>
    </div>
  );
}

function EndCaption(props: { value: Value; named: boolean; stage: Stage | undefined }) {
  const { value, named, stage } = props;
  const { state, network } = useViews();
  const picture = pictureOf(value);
  const image = picture === "grey" || picture === "rgb";
  const length = value.layout.frame[1];
  const batch = network.value?.batch ?? 1;
  const select = (layer: string): void => {
    state.selected.value = { layer, channel: null };
  };
  return (
    <>
      <span>
        {named ? `${value.key} ` : ""}
        {imageShape(value)}
        {image && (
          <>
            {" · "}
            <ImageRange value={value} />
          </>
        )}
      </span>
      {value.kind === "input" && batch > 1 && !named && (
        <span>
          example {state.inputIndex.value} of {batch}
        </span>
      )}
      {value.kind === "output" && picture === "bars" && length > 10 && (
        <span>the 10 largest of {length}</span>
      )}
      {value.kind === "output" && stage !== undefined && !named && (
        <span>
          {stage.title} <Parts stage={stage} shown={stage.key} select={select} />
        </span>
      )}
    </>
  );
}

/** Many stages: rows by module, each stage at its own scale. */
function Rows({ network, stages }: { network: Network; stages: readonly Stage[] }) {
  const { ratio, width } = useViews();
  const gap = Math.round(ratio.value);
  const groups: { name: string; stages: Stage[] }[] = [];
  for (const stage of stages) {
    const group = groups.at(-1);
    if (group !== undefined && group.name === stage.group) group.stages.push(stage);
    else groups.push({ name: stage.group, stages: [stage] });
  }
  const side = Math.min(240, width.value * 0.24);
  return (
    <div class="nbg-rows" role="group" aria-label="Network, from input to output">
      <div class="nbg-both">
        <Ends values={network.inputs} network={network} side={side} word="Input" />
        <ArrowColumn />
        <Ends values={network.outputs} network={network} side={side} word="Output" />
        <p class="nbg-note">
          {stages.length} stages in rows, from top to bottom. Each is drawn at its own scale, with the
          channels that vary most.
        </p>
      </div>
      {groups.map((group, i) => (
        <section class="nbg-group" key={`${i} ${group.name}`}>
          <h3>{group.name || network.stages[0]?.group || ""}</h3>
          <div class="nbg-flow">
            {group.stages.map((stage, j) => (
              <div class="nbg-step" key={stage.key}>
                {j > 0 && <ArrowColumn />}
                <StageView network={network} stage={stage} mosaic={null} gap={gap} height={BOX} />
              </div>
            ))}
          </div>
        </section>
      ))}
    </div>
  );
}

/** Narrow: both pictures above, then one row per stage. */
function List({ network, stages }: { network: Network; stages: readonly Stage[] }) {
  const { width } = useViews();
  const side = Math.max(60, Math.floor((width.value - 24 - 12) / 2));
  return (
    <div class="nbg-list" role="group" aria-label="Network, from input to output">
      <div class="nbg-both">
        <Ends values={network.inputs} network={network} side={side} word="Input" />
        <Ends values={network.outputs} network={network} side={side} word="Output" />
      </div>
      {stages.map((stage) => (
        <Row key={stage.key} network={network} stage={stage} />
      ))}
    </div>
  );
}

function Row({ network, stage }: { network: Network; stage: Stage }) {
  const { state, width, ratio } = useViews();
  const name = shownLayer(stage, state.selected.value?.layer);
  const value = network.values.get(name);
  if (value === undefined) return null;
  const chosen = stage.layers.some((layer) => layer.name === state.selected.value?.layer);
  const room = width.value - 24 - 112 - 32;
  const head = stage.layers.find((layer) => settings(layer) !== "") ?? stage.layers[0];
  const open = (): void => {
    state.selected.value = { layer: name, channel: null };
    state.tab.value = "layer";
  };
  return (
    <button
      type="button"
      class={chosen ? "nbg-row nbg-chosen" : "nbg-row"}
      data-layer={name}
      aria-label={`Open ${name}, ${contents(value)}`}
      onClick={open}
    >
      <span class="nbg-caption">
        <strong class="nbg-name">{stage.title}</strong>
        <span>{head && `${shortType(head)} ${settings(head).replace(", stride ", " /")}`}</span>
        <span>{imageShape(value)}</span>
        {stage.reads.length > 0 && <span class="nbg-reads">reads {stage.reads.join(", ")}</span>}
      </span>
      <span class="nbg-six">
        <SixMaps value={value} width={room} ratio={ratio.value} />
      </span>
      <Right />
    </button>
  );
}

/** As many maps as fit a row, six as a rule; a vector as upright bars. */
function SixMaps({ value, width, ratio }: { value: Value; width: number; ratio: number }) {
  const label = `${leafName(value.key)}, ${contents(value)}`;
  const picture = pictureOf(value);
  if (picture === "number") return <NumberPicture value={value} />;
  if (picture === "bars") {
    const most = Math.floor(width / 6);
    return <Bars value={value} width={width} height={44} most={most} upright label={label} />;
  }
  const [, channels, mapHeight, mapWidth] = value.layout.frame;
  const gap = Math.round(ratio);
  const tile = Math.floor((width * ratio - 5 * gap) / 6);
  const box = { width: width * ratio, height: Math.max(tile, 24 * ratio) };
  const maps = { channels: Math.min(6, channels), height: mapHeight, width: mapWidth };
  const scale = Math.max(mapHeight, mapWidth) <= tile ? Math.floor(tile / Math.max(mapHeight, mapWidth)) : 1 / Math.ceil(Math.max(mapHeight, mapWidth) / tile);
  const shown = maps.channels;
  const mosaic = { ...boxMosaic(maps, box, gap, tile), shown, columns: shown, rows: 1, scale };
  return <StageMaps value={value} mosaic={mosaic} gap={gap} />;
}
