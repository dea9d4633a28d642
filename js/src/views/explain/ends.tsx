// Where a number comes from and where it stands: source and result as pictures of one size beside each other.

import type { ComponentChildren } from "preact";
import { type Around, NOTHING } from "../../explain/around.ts";
import type { Tensors } from "../../explain/tensor.ts";
import type { Lines } from "../../explain/window.ts";
import { short } from "../../format.ts";
import { shapeOfOne } from "../../network/display.ts";
import type { Value } from "../../plan/schema.ts";
import { imageOf, useViews } from "../context.ts";
import { px } from "../layout.ts";
import { Figure } from "./matrix.tsx";
import { type Callout, InputMap, mapSize, PixelMap, sizeIn } from "./pixel.tsx";
import { CAPTION } from "./taps.tsx";

/** CSS pixels of a picture, of a curve, and between two of them. */
const PICTURE = 240;
/** Of a result's caption, which has the layer's name. */
const NAME = 160;
const [LEAST_CURVE, MOST_CURVE] = [260, 520];
export const GAP = 40;

/** The explained number's place, and how another one is chosen. */
export interface Result {
  readonly value: Value;
  readonly channel: number;
  readonly y: number;
  readonly x: number;
  readonly choose: (y: number, x: number) => void;
}

/** Everything that pictures of an explanation are drawn with. */
export interface Drawn {
  readonly result: Result;
  readonly tensors: Tensors;
  /** CSS pixels of the view. */
  readonly width: number;
}

export interface Source {
  readonly value: Value;
  readonly channel: number;
  readonly lines: Lines;
  readonly around?: Around;
  /** What is marked in it: "the patch", "the pixel". */
  readonly marked: string;
}

const isLine = ({ nchw: [, , height, width] }: Value): boolean => height === 1 && width > 1;
export const hasPlaces = ({ nchw: [, , height, width] }: Value): boolean => height * width > 1;

/** The numbers of a line of numbers, of the shown example; null for maps. */
function useLine(value: Value, channel: number, tensors: Tensors): Float32Array | null {
  const views = useViews();
  const network = views.network.value;
  const data = tensors.get(value.key)?.data;
  if (!isLine(value) || data === undefined || network === null) return null;
  const [, channels, , width] = value.nchw;
  const image = imageOf(value, network, views.state.example.value);
  return data.subarray(
    (image * channels + channel) * width,
    (image * channels + channel + 1) * width,
  );
}

/** How wide pictures of so many values beside each other are: their rooms, and what they take. */
export function roomOf(value: Value, width: number, count: number): number {
  const each = (width - (count - 1) * GAP) / count;
  if (!isLine(value)) return Math.max(120, Math.min(PICTURE, each));
  return each >= LEAST_CURVE ? Math.min(MOST_CURVE, each) : width;
}

/** "channel 3 of 8×14×14". */
function textOf({ value, channel }: Source, batch: number): string {
  const shape = shapeOfOne(value.shape, batch);
  return value.nchw[1] > 1 ? `channel ${channel} of ${shape}` : shape;
}

/** "−0.2 to 1.3": between which numbers a curve lies. */
function endsOf(line: Float32Array | null): string {
  if (line === null) return "";
  const ends = [line.reduce((a, b) => Math.min(a, b)), line.reduce((a, b) => Math.max(a, b))];
  return ends.map(short).join(" to ");
}

export function SourceFigure(props: {
  source: Source;
  room: number;
  tensors: Tensors;
  callout?: Callout | null;
}) {
  const { source, room, tensors, callout = null } = props;
  const views = useViews();
  const { value, channel, lines, around = NOTHING, marked } = source;
  const line = useLine(value, channel, tensors);
  const { outer } = sizeIn({ value, room, line }, views.ratio.value, around);
  return (
    <div class="nbg-from" style={{ width: px(Math.max(CAPTION, outer.width)) }}>
      <Figure
        title={value.key}
        text={textOf(source, views.network.value?.batch ?? 1)}
        whole={endsOf(line)}
      >
        <InputMap
          value={value}
          channel={channel}
          room={room}
          line={line}
          lines={lines}
          around={around}
          callout={callout}
          label={`channel ${channel} of ${value.key}, with ${marked} marked`}
        />
      </Figure>
    </div>
  );
}

/** The layer's own map, with the explained pixel: a click chooses another one. */
export function ResultFigure({
  result,
  room,
  tensors,
}: {
  result: Result;
  room: number;
  tensors: Tensors;
}) {
  const { ratio } = useViews();
  const { value, channel } = result;
  const line = useLine(value, channel, tensors);
  const place = { value, room, line, large: true };
  const { outer } = sizeIn(place, ratio.value);
  return (
    <div class="nbg-from" style={{ width: px(Math.max(NAME, outer.width)) }}>
      <Figure
        title={value.key}
        text={`${value.nchw[1] > 1 ? `channel ${channel}: ` : ""}click another ${line ? "place" : "pixel"}`}
      >
        <PixelMap {...result} {...place} label={`channel ${channel} of ${value.key}`} />
      </Figure>
    </div>
  );
}

/** How wide the pictures of sources and a result are drawn, and what the result is drawn in. */
export function usePair(source: Source, { result, tensors, width }: Drawn, count = 2) {
  const { ratio } = useViews();
  const line = useLine(source.value, source.channel, tensors);
  const { value, around } = source;
  let room = roomOf(value, width, count);
  let size = sizeIn({ value, room, line }, ratio.value, around);
  let to = line === null ? Math.max(size.width, size.height, 120) : room;
  if (line === null) {
    // Pixels are whole: of a large result fewer fit, and the source is drawn no larger than it.
    const own = mapSize(result.value, to, ratio.value, NOTHING, true);
    const side = Math.max(own.width, own.height);
    if (side < 0.85 * to && hasPlaces(result.value)) {
      const frame = Math.max(size.outer.width - size.width, size.outer.height - size.height);
      room = Math.max(120, side + frame * (side / to));
      size = sizeIn({ value, room, line }, ratio.value, around);
      to = side;
    }
  }
  const taken =
    Math.max(CAPTION, size.outer.width) + (hasPlaces(result.value) ? GAP + Math.max(to, NAME) : 0);
  return { room, to, taken };
}

interface EndsProps {
  sources: readonly Source[];
  drawn: Drawn;
  /** CSS pixels that what stands beside them takes; below them where there is no such room. */
  needs?: number;
  children?: ComponentChildren;
}

/** Sources, and the result behind them. */
export function Ends(props: EndsProps) {
  const [first] = props.sources.filter(({ value }) => hasPlaces(value));
  if (first !== undefined) return <Row {...props} first={first} />;
  const { result, tensors, width } = props.drawn;
  return (
    <div class="nbg-after-ends">
      {hasPlaces(result.value) && (
        <ResultFigure {...{ result, tensors }} room={roomOf(result.value, width, 2)} />
      )}
      {props.children}
    </div>
  );
}

function Row({ first, sources, drawn, needs = 0, children }: EndsProps & { first: Source }) {
  const { result, tensors, width } = drawn;
  const shown = sources.filter(({ value }) => hasPlaces(value));
  const { room, to, taken } = usePair(first, drawn, shown.length + 1);
  const all = taken + (shown.length - 1) * (room + GAP);
  const beside = all + GAP + needs <= width;
  return (
    <>
      <div class={all <= width ? "nbg-ends" : "nbg-ends nbg-narrow"}>
        {shown.map((source) => (
          <SourceFigure key={source.value.key} {...{ source, room, tensors }} />
        ))}
        {hasPlaces(result.value) && <ResultFigure {...{ result, room: to, tensors }} />}
        {beside && children}
      </div>
      {!beside && <div class="nbg-after-ends">{children}</div>}
    </>
  );
}
