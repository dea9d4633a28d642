// What a segmentation says: each place's class in its colour, over the input, and which classes there are.
import { useState } from "preact/hooks";
import { full, percent } from "../../format.ts";
import type { Network } from "../../network/network.ts";
import { classColor } from "../../pictures/colormaps.ts";
import type { Value } from "../../plan/schema.ts";
import { Choice } from "../choice.tsx";
import { useAnswer, useSeen, useViews, type Views } from "../context.ts";
import { isReadable } from "../measures.ts";
import { type Counted, countClasses } from "./count.ts";
import { Filling, Laid, Opacity, pictureUnder, Tools, useFitting } from "./laid.tsx";

type Shown = "over" | "classes" | "input";
const SHOWN: readonly (readonly [Shown, string])[] = [
  ["over", "Over the input"],
  ["classes", "Classes"],
  ["input", "Input"],
];

/** The input whose picture classes cover: of the same proportions. */
function pictureOf(network: Network, value: Value): Value | undefined {
  const input = pictureUnder(network, value);
  const [, , h, w] = value.nchw;
  const [, , height = 0, width = 0] = input?.nchw ?? [];
  return Math.abs(height / h - width / w) * w <= 1 ? input : undefined;
}

/** Classes as a picture over the input's, with their legend. */
export function Classes(props: { value: Value; side: number }) {
  const { value, side } = props;
  const { network } = useViews();
  const [shown, show] = useState<Shown>("over");
  const input = network.value ? pictureOf(network.value, value) : undefined;
  const size = useFitting(input ?? value, side);
  return (
    <div class="nbg-classes">
      <div class="nbg-classes-picture">
        {input !== undefined && (
          <Choice label="What is shown" items={SHOWN} now={shown} choose={show} />
        )}
        <Laid {...size} shown={shown}>
          {input !== undefined && shown !== "classes" && (
            <Filling value={input} width={size.width} />
          )}
          {(input === undefined || shown !== "input") && (
            <Filling value={value} width={size.width} />
          )}
        </Laid>
        {input !== undefined && shown === "over" && <Opacity />}
      </div>
      <Legend value={value} most={Math.max(4, Math.floor(side / 20) - 1)} />
    </div>
  );
}

/** Below the output's picture: whether it lies over the input's, and the classes of which there is most. */
export function Shares({ value }: { value: Value }) {
  const { network } = useViews();
  return (
    <>
      {network.value && pictureUnder(network.value, value) && <Tools />}
      <Legend value={value} most={4} />
    </>
  );
}

/** A place's likeliest class is found on the device, and only those are brought here; where it cannot, all scores. */
async function askCounted(
  { measures }: Views,
  value: Value,
  image: number,
): Promise<readonly Counted[] | "too many" | null> {
  const [, channels, height, width] = value.nchw;
  const found = await measures.likeliest(value.key, image);
  if (found === null) return null;
  if (found !== undefined) {
    return countClasses(
      found.map((which) => (which < 0 ? Number.NaN : which)),
      1,
    );
  }
  if (!isReadable(value)) return "too many";
  const all = await measures.read(value.key);
  const size = channels * height * width;
  return all && countClasses(all.subarray(image * size, (image + 1) * size), channels);
}

/** Which classes there are in the picture, the most frequent first, with their colours and shares. */
function Legend({ value, most }: { value: Value; most: number }) {
  const called = useViews().names.value(value.key);
  const [element, seen] = useSeen<HTMLDivElement>();
  const found = useAnswer(value, askCounted, "", seen) ?? [];
  const [, channels] = value.nchw;
  if (found === "too many") {
    return (
      <div class="nbg-classes-legend" ref={element}>
        <p class="nbg-second">{full(channels)} classes; too many values to be counted here</p>
      </div>
    );
  }
  const places = found.reduce((sum, one) => sum + one.count, 0);
  const shown = found.slice(0, most);
  const left = found.length - shown.length;
  const all = channels > 1 ? channels : found.length;
  const counts = channels > 1 ? `${full(found.length)} of ${full(all)}` : full(all);
  return (
    <div class="nbg-classes-legend" ref={element}>
      <span class="nbg-second">
        {counts} {all === 1 ? "class" : "classes"} in this picture
      </span>
      <ul>
        {shown.map(({ which, count }) => (
          <li key={which} data-class={which}>
            <span
              class="nbg-swatch"
              style={{ background: `rgb(${classColor(which).join(" ")})` }}
            />
            <span>{called[which] || `class ${which}`}</span>
            <strong>{percent(count / places, 1)}</strong>
          </li>
        ))}
      </ul>
      {left > 0 && <span class="nbg-second">{full(left)} more</span>}
    </div>
  );
}
