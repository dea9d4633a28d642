// What enters the network, after all that is done to the picture: itself, its shape, its numbers.
import { short } from "../../../format.ts";
import { contents, displayOf, imageShape } from "../../../network/display.ts";
import type { Input } from "../../../plan/schema.ts";
import { useStatistics, useViews } from "../../../views/context.ts";
import { ImageRange } from "../../../views/image_range.tsx";
import { Picture } from "../../../views/picture.tsx";
import { canPlay } from "../kinds.ts";

/** CSS pixels of its picture. */
const SIDE = 194;
/** Layers in front of the model, which Python puts there. */
const BEFORE = "preprocess.";

export function Enters({ input }: { input: Input }) {
  const { network, state } = useViews();
  const now = network.value;
  const value = now?.values.get(input.key);
  const steps = now?.layers.filter(({ name }) => name.startsWith(BEFORE)) ?? [];
  const last = now?.values.get(steps.at(-1)?.name ?? "") ?? value;
  const statistics = useStatistics(last ?? null);
  const source = state.source.value;
  const { phase } = state.sourceStatus.value;
  // A camera's own picture may go on meanwhile.
  const isPaused =
    source !== null &&
    source.input === input.key &&
    canPlay(source) &&
    phase !== "elsewhere" &&
    !(source.playing && phase === "live");
  if (value === undefined || last === undefined) return null;
  const all = statistics?.layer;
  return (
    <section class="nbg-enters" aria-label="Enters the network">
      <h3>Enters the network{isPaused && <span class="nbg-second nbg-paused"> · paused</span>}</h3>
      <div class="nbg-enters-picture" data-layer={value.key}>
        {state.session.value !== null && (
          <Picture value={value} width={SIDE} height={SIDE} tile={20} />
        )}
      </div>
      <p class="nbg-second">
        {imageShape(last)} {input.dtype}
        {!displayOf(value).image && `, ${contents(value)}`}
      </p>
      {displayOf(value).image && (
        <p class="nbg-second">
          shown in <ImageRange value={value} />
        </p>
      )}
      {all && (
        <p class="nbg-second nbg-enters-numbers">
          <span>
            from <strong>{short(all.min)}</strong> to <strong>{short(all.max)}</strong>
          </span>
          <span>
            mean <strong>{short(all.mean)}</strong> · std <strong>{short(all.std)}</strong>
          </span>
        </p>
      )}
      <p class="nbg-second">
        {steps.length === 0
          ? "no normalisation"
          : steps.map(({ name }) => name.slice(BEFORE.length)).join(", ")}
      </p>
    </section>
  );
}
