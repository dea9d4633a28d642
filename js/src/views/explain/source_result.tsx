// Where a number comes from and where it stands: source and result as pictures of one size beside each other.

import type { ComponentChildren } from "preact";
import type { Tensors } from "../../explain/tensor.ts";
import type { WindowTaps } from "../../explain/window.ts";
import { NO_MARGINS, type WindowMargins } from "../../explain/window_margins.ts";
import { exampleShape } from "../../network/display_kind.ts";
import { formatShort } from "../../number_format.ts";
import type { Value } from "../../plan/schema.ts";
import { imageIndex, useViews } from "../context.ts";
import { px } from "../layout.ts";
import { CAPTION_WIDTH } from "./equation.tsx";
import { type Callout, drawnSize, InputMap, mapSize, PixelMap } from "./marked_maps.tsx";
import { Figure } from "./matrix.tsx";

/** CSS pixels of a picture, of a curve, and between two of them. */
const PICTURE_SIZE = 240;
/** Of a result's caption, which has the layer's name. */
const MIN_RESULT_WIDTH = 160;
const [MIN_CURVE, MAX_CURVE] = [260, 520];
export const GAP = 40;

/** The explained number's place, and how another one is chosen. */
export interface ExplainedPixel {
  readonly value: Value;
  readonly channel: number;
  readonly y: number;
  readonly x: number;
  readonly choose: (y: number, x: number) => void;
}

/** Everything that pictures of an explanation are drawn with. */
export interface DrawContext {
  readonly result: ExplainedPixel;
  readonly tensors: Tensors;
  /** CSS pixels of the view. */
  readonly width: number;
}

export interface MarkedSource {
  readonly value: Value;
  readonly channel: number;
  readonly taps: WindowTaps;
  readonly margins?: WindowMargins;
  /** What is marked in it: "the patch", "the pixel". */
  readonly markLabel: string;
}

const is1d = ({ nchw: [, , height, width] }: Value): boolean => height === 1 && width > 1;
export const hasPixels = ({ nchw: [, , height, width] }: Value): boolean => height * width > 1;

/** The numbers of a line of numbers, of the shown example; null for maps. */
function useSignalValues(value: Value, channel: number, tensors: Tensors): Float32Array | null {
  const views = useViews();
  const network = views.network.value;
  const data = tensors.get(value.key)?.data;
  if (!is1d(value) || data === undefined || network === null) return null;
  const [, channels, , width] = value.nchw;
  const image = imageIndex(value, network, views.state.example.value);
  return data.subarray(
    (image * channels + channel) * width,
    (image * channels + channel + 1) * width,
  );
}

/** How wide pictures of so many values beside each other are: their rooms, and what they take. */
export function pictureWidth(value: Value, width: number, count: number): number {
  const each = (width - (count - 1) * GAP) / count;
  if (!is1d(value)) return Math.max(120, Math.min(PICTURE_SIZE, each));
  return each >= MIN_CURVE ? Math.min(MAX_CURVE, each) : width;
}

/** "channel 3 of 8×14×14". */
function sourceText({ value, channel }: MarkedSource, batch: number): string {
  const shape = exampleShape(value.shape, batch);
  return value.nchw[1] > 1 ? `channel ${channel} of ${shape}` : shape;
}

/** "−0.2 to 1.3": between which numbers a curve lies. */
function valueRangeText(line: Float32Array | null): string {
  if (line === null) return "";
  const ends = [line.reduce((a, b) => Math.min(a, b)), line.reduce((a, b) => Math.max(a, b))];
  return ends.map(formatShort).join(" to ");
}

export function SourceFigure(props: {
  source: MarkedSource;
  room: number;
  tensors: Tensors;
  callout?: Callout | null;
}) {
  const { source, room, tensors, callout = null } = props;
  const views = useViews();
  const { value, channel, taps, margins = NO_MARGINS, markLabel } = source;
  const signal = useSignalValues(value, channel, tensors);
  const { outer } = drawnSize({ value, room, signal }, views.pixelRatio.value, margins);
  return (
    <div class="nbg-from" style={{ width: px(Math.max(CAPTION_WIDTH, outer.width)) }}>
      <Figure
        title={value.key}
        text={sourceText(source, views.network.value?.batch ?? 1)}
        unbrokenText={valueRangeText(signal)}
      >
        <InputMap
          value={value}
          channel={channel}
          room={room}
          signal={signal}
          lines={taps}
          around={margins}
          callout={callout}
          label={`channel ${channel} of ${value.key}, with ${markLabel} marked`}
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
  result: ExplainedPixel;
  room: number;
  tensors: Tensors;
}) {
  const { pixelRatio } = useViews();
  const { value, channel } = result;
  const signal = useSignalValues(value, channel, tensors);
  const place = { value, room, signal, fillsRoom: true };
  const { outer } = drawnSize(place, pixelRatio.value);
  return (
    <div class="nbg-from" style={{ width: px(Math.max(MIN_RESULT_WIDTH, outer.width)) }}>
      <Figure
        title={value.key}
        text={`${value.nchw[1] > 1 ? `channel ${channel}: ` : ""}click another ${signal ? "place" : "pixel"}`}
      >
        <PixelMap {...result} {...place} label={`channel ${channel} of ${value.key}`} />
      </Figure>
    </div>
  );
}

/** How wide the pictures of sources and a result are drawn, and what the result is drawn in. */
export function usePictureSizes(
  source: MarkedSource,
  { result, tensors, width }: DrawContext,
  count = 2,
) {
  const { pixelRatio } = useViews();
  const signal = useSignalValues(source.value, source.channel, tensors);
  const { value, margins } = source;
  let room = pictureWidth(value, width, count);
  let size = drawnSize({ value, room, signal }, pixelRatio.value, margins);
  let to = signal === null ? Math.max(size.width, size.height, 120) : room;
  if (signal === null) {
    // Pixels are whole: of a large result fewer fit, and the source is drawn no larger than it.
    const own = mapSize(result.value, to, pixelRatio.value, NO_MARGINS, true);
    const side = Math.max(own.width, own.height);
    if (side < 0.85 * to && hasPixels(result.value)) {
      const frame = Math.max(size.outer.width - size.width, size.outer.height - size.height);
      room = Math.max(120, side + frame * (side / to));
      size = drawnSize({ value, room, signal }, pixelRatio.value, margins);
      to = side;
    }
  }
  const taken =
    Math.max(CAPTION_WIDTH, size.outer.width) +
    (hasPixels(result.value) ? GAP + Math.max(to, MIN_RESULT_WIDTH) : 0);
  return { room, to, taken };
}

interface EndsProps {
  sources: readonly MarkedSource[];
  context: DrawContext;
  /** CSS pixels that what stands beside them takes; below them where there is no such room. */
  asideWidth?: number;
  children?: ComponentChildren;
}

/** Sources, and the result behind them. */
export function SourceAndResult(props: EndsProps) {
  const [first] = props.sources.filter(({ value }) => hasPixels(value));
  if (first !== undefined) return <PictureRow {...props} first={first} />;
  const { result, tensors, width } = props.context;
  return (
    <div class="nbg-after-ends">
      {hasPixels(result.value) && (
        <ResultFigure {...{ result, tensors }} room={pictureWidth(result.value, width, 2)} />
      )}
      {props.children}
    </div>
  );
}

function PictureRow({
  first,
  sources,
  context,
  asideWidth = 0,
  children,
}: EndsProps & { first: MarkedSource }) {
  const { result, tensors, width } = context;
  const shown = sources.filter(({ value }) => hasPixels(value));
  const { room, to, taken } = usePictureSizes(first, context, shown.length + 1);
  const all = taken + (shown.length - 1) * (room + GAP);
  const beside = all + GAP + asideWidth <= width;
  return (
    <>
      <div class={all <= width ? "nbg-ends" : "nbg-ends nbg-narrow"}>
        {shown.map((source) => (
          <SourceFigure key={source.value.key} {...{ source, room, tensors }} />
        ))}
        {hasPixels(result.value) && <ResultFigure {...{ result, room: to, tensors }} />}
        {beside && children}
      </div>
      {!beside && <div class="nbg-after-ends">{children}</div>}
    </>
  );
}
