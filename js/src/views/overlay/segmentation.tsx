// The view of a segmentation: each pixel's class as a colour over the input, and a legend of the classes.
import { useState } from "preact/hooks";
import type { Network } from "../../network/network.ts";
import { formatInteger, formatPercent } from "../../number_format.ts";
import { classColor } from "../../pictures/colormaps.ts";
import type { Value } from "../../plan/schema.ts";
import { Choice } from "../choice.tsx";
import { useQuery, useViews, useVisibility, type Views } from "../context.ts";
import { isReadable } from "../run_queries.ts";
import {
  Blend,
  BlendLayer,
  BlendTools,
  backgroundInput,
  OpacitySlider,
  useFittedSize,
} from "./blend.tsx";
import { type ClassCount, countClasses } from "./class_counts.ts";

type SegmentationMode = "over" | "classes" | "input";
const MODE_ITEMS: readonly (readonly [SegmentationMode, string])[] = [
  ["over", "Over the input"],
  ["classes", "Classes"],
  ["input", "Input"],
];

/** The input whose picture the classes cover: it has the same aspect ratio. */
function coveredInput(network: Network, value: Value): Value | undefined {
  const input = backgroundInput(network, value);
  const [, , h, w] = value.nchw;
  const [, , height = 0, width = 0] = input?.nchw ?? [];
  return Math.abs(height / h - width / w) * w <= 1 ? input : undefined;
}

/** The class map over the input's picture, with a legend. */
export function SegmentationView(props: { value: Value; side: number }) {
  const { value, side } = props;
  const { network } = useViews();
  const [shown, show] = useState<SegmentationMode>("over");
  const input = network.value ? coveredInput(network.value, value) : undefined;
  const size = useFittedSize(input ?? value, side);
  return (
    <div class="nbg-classes">
      <div class="nbg-classes-picture">
        {input !== undefined && (
          <Choice label="What is shown" items={MODE_ITEMS} selected={shown} choose={show} />
        )}
        <Blend {...size} mode={shown}>
          {input !== undefined && shown !== "classes" && (
            <BlendLayer value={input} width={size.width} />
          )}
          {(input === undefined || shown !== "input") && (
            <BlendLayer value={value} width={size.width} />
          )}
        </Blend>
        {input !== undefined && shown === "over" && <OpacitySlider />}
      </div>
      <ClassLegend value={value} maxClasses={Math.max(4, Math.floor(side / 20) - 1)} />
    </div>
  );
}

/** Below the output's picture: the overlay's switch, and the most frequent classes. */
export function SegmentationLegend({ value }: { value: Value }) {
  const { network } = useViews();
  return (
    <>
      {network.value && backgroundInput(network.value, value) && <BlendTools />}
      <ClassLegend value={value} maxClasses={4} />
    </>
  );
}

/**
 * The most likely class of each pixel is computed on the GPU and read back; if that is impossible, all scores are read
 * back.
 */
async function queryClassCounts(
  { queries }: Views,
  value: Value,
  image: number,
): Promise<readonly ClassCount[] | "too many" | null> {
  const [, channels, height, width] = value.nchw;
  const found = await queries.argmax(value.key, image);
  if (found === null) return null;
  if (found !== undefined) {
    return countClasses(
      found.map((which) => (which < 0 ? Number.NaN : which)),
      1,
    );
  }
  if (!isReadable(value)) return "too many";
  const all = await queries.read(value.key);
  const size = channels * height * width;
  return all && countClasses(all.subarray(image * size, (image + 1) * size), channels);
}

/** The classes in the picture, most frequent first, with their colours and shares. */
function ClassLegend({ value, maxClasses }: { value: Value; maxClasses: number }) {
  const called = useViews().classNames.value(value.key);
  const [element, seen] = useVisibility<HTMLDivElement>();
  const found = useQuery(value, queryClassCounts, "", seen) ?? [];
  const [, channels] = value.nchw;
  if (found === "too many") {
    return (
      <div class="nbg-classes-legend" ref={element}>
        <p class="nbg-second">{formatInteger(channels)} classes; too many values to count</p>
      </div>
    );
  }
  const places = found.reduce((sum, one) => sum + one.count, 0);
  const shown = found.slice(0, maxClasses);
  const left = found.length - shown.length;
  const all = channels > 1 ? channels : found.length;
  const counts =
    channels > 1 ? `${formatInteger(found.length)} of ${formatInteger(all)}` : formatInteger(all);
  return (
    <div class="nbg-classes-legend" ref={element}>
      <span class="nbg-second">
        {counts} {all === 1 ? "class" : "classes"} in this picture
      </span>
      <ul>
        {shown.map(({ classIndex, count }) => (
          <li key={classIndex} data-class={classIndex}>
            <span
              class="nbg-swatch"
              style={{ background: `rgb(${classColor(classIndex).join(" ")})` }}
            />
            <span>{called[classIndex] || `class ${classIndex}`}</span>
            <strong>{formatPercent(count / places, 1)}</strong>
          </li>
        ))}
      </ul>
      {left > 0 && <span class="nbg-second">{formatInteger(left)} more</span>}
    </div>
  );
}
