// Source and result of an explanation as pictures of the same size, side by side.

import type { ComponentChildren } from "preact";
import type { Tensors } from "../../explain/tensor.ts";
import type { WindowTaps } from "../../explain/window.ts";
import { NO_MARGINS, type WindowMargins } from "../../explain/window_margins.ts";
import { exampleShapeText } from "../../network/display_kind.ts";
import { formatShort } from "../../number_format.ts";
import type { Value } from "../../plan/schema.ts";
import { imageIndex, useViews } from "../context.ts";
import { px } from "../layout.ts";
import { CAPTION_WIDTH } from "./equation.tsx";
import { type Callout, drawnSize, InputMap, mapSize, PixelMap } from "./marked_maps.tsx";
import { Figure } from "./matrix.tsx";

/** CSS pixels of a picture, of a curve, and of the gap between two pictures. */
const PICTURE_SIZE = 240;
/** The least width of a result's caption, which contains the layer's name. */
const MIN_RESULT_WIDTH = 160;
const [MIN_CURVE, MAX_CURVE] = [260, 520];
export const PICTURE_GAP = 40;

/** The position of the explained value, and the callback that selects another. */
export interface ExplainedPixel {
  readonly value: Value;
  readonly channel: number;
  readonly y: number;
  readonly x: number;
  readonly choose: (y: number, x: number) => void;
}

/** The shared context of an explanation's pictures. */
export interface DrawContext {
  readonly result: ExplainedPixel;
  readonly tensors: Tensors;
  /** The view's width in CSS pixels. */
  readonly width: number;
}

export interface MarkedSource {
  readonly value: Value;
  readonly channel: number;
  readonly taps: WindowTaps;
  readonly margins?: WindowMargins;
  /** The noun for the mark: "the patch", "the pixel". */
  readonly markLabel: string;
}

const is1d = ({ nchw: [, , height, width] }: Value): boolean => height === 1 && width > 1;
export const hasSeveralPixels = ({ nchw: [, , height, width] }: Value): boolean =>
  height * width > 1;

/** The values of a one-dimensional signal for the current example; null for maps. */
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

/** The width of each of `count` pictures in a row; a curve without enough room takes the full width. */
export function pictureWidth(value: Value, width: number, count: number): number {
  const each = (width - (count - 1) * PICTURE_GAP) / count;
  if (!is1d(value)) return Math.max(120, Math.min(PICTURE_SIZE, each));
  return each >= MIN_CURVE ? Math.min(MAX_CURVE, each) : width;
}

/** The source's caption, e.g. "channel 3 of 8×14×14". */
function sourceText({ value, channel }: MarkedSource, batch: number): string {
  const shape = exampleShapeText(value.shape, batch);
  return value.nchw[1] > 1 ? `channel ${channel} of ${shape}` : shape;
}

/** The minimum and maximum of a curve, e.g. "−0.2 to 1.3". */
function valueRangeText(signal: Float32Array | null): string {
  if (signal === null) return "";
  const ends = [signal.reduce((a, b) => Math.min(a, b)), signal.reduce((a, b) => Math.max(a, b))];
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
        text={sourceText(source, views.network.value?.batchSize ?? 1)}
        unbrokenText={valueRangeText(signal)}
      >
        <InputMap
          value={value}
          channel={channel}
          room={room}
          signal={signal}
          windowTaps={taps}
          margins={margins}
          callout={callout}
          label={`channel ${channel} of ${value.key}, with ${markLabel} marked`}
        />
      </Figure>
    </div>
  );
}

/** The layer's own map with the explained pixel: a click selects another pixel. */
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

/** The sizes of the source and result pictures, and the room that the result is drawn in. */
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
    // Map pixels have a whole number of device pixels, so a large result may be drawn smaller than the room; the source
    // is then drawn no larger than the result.
    const own = mapSize(result.value, to, pixelRatio.value, NO_MARGINS, true);
    const side = Math.max(own.width, own.height);
    if (side < 0.85 * to && hasSeveralPixels(result.value)) {
      const frame = Math.max(size.outer.width - size.width, size.outer.height - size.height);
      room = Math.max(120, side + frame * (side / to));
      size = drawnSize({ value, room, signal }, pixelRatio.value, margins);
      to = side;
    }
  }
  const taken =
    Math.max(CAPTION_WIDTH, size.outer.width) +
    (hasSeveralPixels(result.value) ? PICTURE_GAP + Math.max(to, MIN_RESULT_WIDTH) : 0);
  return { room, to, taken };
}

interface SourceAndResultProps {
  sources: readonly MarkedSource[];
  context: DrawContext;
  /** CSS pixels of the content beside the pictures; without that room, the content goes below them. */
  asideWidth?: number;
  children?: ComponentChildren;
}

/** Source pictures, followed by the result. */
export function SourceAndResult(props: SourceAndResultProps) {
  const [first] = props.sources.filter(({ value }) => hasSeveralPixels(value));
  if (first !== undefined) return <PictureRow {...props} first={first} />;
  const { result, tensors, width } = props.context;
  return (
    <div class="nbg-after-ends">
      {hasSeveralPixels(result.value) && (
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
}: SourceAndResultProps & { first: MarkedSource }) {
  const { result, tensors, width } = context;
  const shown = sources.filter(({ value }) => hasSeveralPixels(value));
  const { room, to, taken } = usePictureSizes(first, context, shown.length + 1);
  const all = taken + (shown.length - 1) * (room + PICTURE_GAP);
  const beside = all + PICTURE_GAP + asideWidth <= width;
  return (
    <>
      <div class={all <= width ? "nbg-ends" : "nbg-ends nbg-narrow"}>
        {shown.map((source) => (
          <SourceFigure key={source.value.key} {...{ source, room, tensors }} />
        ))}
        {hasSeveralPixels(result.value) && <ResultFigure {...{ result, room: to, tensors }} />}
        {beside && children}
      </div>
      {!beside && <div class="nbg-after-ends">{children}</div>}
    </>
  );
}
