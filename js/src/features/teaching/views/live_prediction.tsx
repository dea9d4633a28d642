// The current input, and a probability bar for each class.

import type { Network } from "../../../network/network.ts";
import { formatPercent } from "../../../number_format.ts";
import { useViews } from "../../../views/context.ts";
import { ValuePicture } from "../../../views/value_picture.tsx";
import type { LessonStore } from "../lesson_store.ts";
import type { TeachingRecord } from "../records.ts";

/** Side of the input's picture in CSS pixels. */
const PICTURE_SIDE = 180;

export function LivePrediction(props: {
  network: Network;
  store: LessonStore;
  record: TeachingRecord;
  probabilities: ReadonlyMap<string, number> | null;
  /** The class with the largest probability. */
  topClassId: string | undefined;
}) {
  const { network, store, record, probabilities, topClassId } = props;
  const { state } = useViews();
  const value = network.values.get(record.input);
  const { classes } = store.lesson.value;
  const named = classes.find(({ id }) => id === topClassId)?.name;
  const source = state.source.value;
  return (
    <section class="nbg-teach-now" aria-label="Now">
      <div class="nbg-teach-picture">
        {value !== undefined && state.session.value !== null && (
          <ValuePicture value={value} width={PICTURE_SIDE} height={PICTURE_SIDE} minTileSide={20} />
        )}
      </div>
      {source === null && (
        <p class="nbg-second">
          The input is a fixed picture.{" "}
          <button
            type="button"
            class="nbg-button"
            onClick={() => {
              state.isDrawerOpen.value = true;
            }}
          >
            Camera, drawing, pictures…
          </button>
        </p>
      )}
      {probabilities === null ? (
        <p class="nbg-second">The predicted class appears here after training.</p>
      ) : (
        <>
          <p class="nbg-teach-verdict">
            {named === undefined ? "" : <strong data-verdict={named}>{named}</strong>}
          </p>
          <div class="nbg-teach-bars" role="list">
            {classes.map(({ id, name }) => {
              const chance = probabilities.get(id);
              return chance === undefined ? null : (
                <div
                  key={id}
                  role="listitem"
                  class={id === topClassId ? "nbg-teach-top" : undefined}
                >
                  <div class="nbg-teach-name" title={name}>
                    {name}
                  </div>
                  <div class="nbg-teach-bar">
                    <span class="nbg-teach-track">
                      <span style={{ width: `${100 * chance}%` }} />
                    </span>
                    {formatPercent(chance)}
                  </div>
                </div>
              );
            })}
          </div>
        </>
      )}
    </section>
  );
}
