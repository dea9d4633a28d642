// The network input after all manipulations: its picture, shape and statistics.

import { contentsText, displayStyle, imageShapeText } from "../../../network/display_kind.ts";
import { formatShort } from "../../../number_format.ts";
import type { Input } from "../../../plan/schema.ts";
import { useStatistics, useViews } from "../../../views/context.ts";
import { ImageRange } from "../../../views/image_range.tsx";
import { ValuePicture } from "../../../views/value_picture.tsx";
import { canPlay } from "../source_kinds.ts";

/** Side of the picture in CSS pixels. */
const PICTURE_SIDE = 194;
/** Name prefix of the preprocessing layers that Python inserts before the model. */
const PREPROCESS_PREFIX = "preprocess.";

export function NetworkInput({ input }: { input: Input }) {
  const { network, state } = useViews();
  const now = network.value;
  const value = now?.values.get(input.key);
  const steps = now?.layers.filter(({ name }) => name.startsWith(PREPROCESS_PREFIX)) ?? [];
  const last = now?.values.get(steps.at(-1)?.name ?? "") ?? value;
  const statistics = useStatistics(last ?? null);
  const source = state.source.value;
  const { phase } = state.sourceStatus.value;
  // The camera's own preview may keep moving.
  const isPaused =
    source !== null &&
    source.input === input.key &&
    canPlay(source) &&
    phase !== "elsewhere" &&
    !(source.playing && phase === "live");
  if (value === undefined || last === undefined) return null;
  const all = statistics?.layer;
  return (
    <section class="nbg-network-input" aria-label="Network input">
      <h3>Network input{isPaused && <span class="nbg-second nbg-paused"> · paused</span>}</h3>
      <div class="nbg-network-input-picture" data-layer={value.key}>
        {state.session.value !== null && (
          <ValuePicture value={value} width={PICTURE_SIDE} height={PICTURE_SIDE} minTileSide={20} />
        )}
      </div>
      <p class="nbg-second">
        {imageShapeText(last)} {input.dtype}
        {!displayStyle(value).isImage && `, ${contentsText(value)}`}
      </p>
      {displayStyle(value).isImage && (
        <p class="nbg-second">
          shown in <ImageRange value={value} />
        </p>
      )}
      {all && (
        <p class="nbg-second nbg-network-input-numbers">
          <span>
            from <strong>{formatShort(all.min)}</strong> to <strong>{formatShort(all.max)}</strong>
          </span>
          <span>
            mean <strong>{formatShort(all.mean)}</strong> · std{" "}
            <strong>{formatShort(all.std)}</strong>
          </span>
        </p>
      )}
      <p class="nbg-second">
        {steps.length === 0
          ? "no normalisation"
          : steps.map(({ name }) => name.slice(PREPROCESS_PREFIX.length)).join(", ")}
      </p>
    </section>
  );
}
