// What enters now, and a bar for each class.
import { percent } from "../../../format.ts";
import type { Network } from "../../../network/network.ts";
import { useViews } from "../../../views/context.ts";
import { Picture } from "../../../views/picture.tsx";
import type { TeachingRecord } from "../records.ts";
import type { Teaching } from "../store.ts";

/** CSS pixels of its picture. */
const SIDE = 180;

export function Now(props: {
  network: Network;
  teaching: Teaching;
  record: TeachingRecord;
  chances: ReadonlyMap<string, number> | null;
  /** The class with the largest probability. */
  top: string | undefined;
}) {
  const { network, teaching, record, chances, top } = props;
  const { state } = useViews();
  const value = network.values.get(record.input);
  const { classes } = teaching.taught.value;
  const named = classes.find(({ id }) => id === top)?.name;
  const source = state.source.value;
  return (
    <section class="nbg-teach-now" aria-label="Now">
      <div class="nbg-teach-picture">
        {value !== undefined && state.session.value !== null && (
          <Picture value={value} width={SIDE} height={SIDE} tile={20} />
        )}
      </div>
      {source === null && (
        <p class="nbg-second">
          A fixed picture enters now.{" "}
          <button
            type="button"
            class="nbg-button"
            onClick={() => {
              state.drawer.value = true;
            }}
          >
            Camera, drawing, pictures…
          </button>
        </p>
      )}
      {chances === null ? (
        <p class="nbg-second">With a head, it stands here which class this is.</p>
      ) : (
        <>
          <p class="nbg-teach-verdict">
            {named === undefined ? "" : <strong data-verdict={named}>{named}</strong>}
          </p>
          <div class="nbg-teach-bars" role="list">
            {classes.map(({ id, name }) => {
              const chance = chances.get(id);
              return chance === undefined ? null : (
                <div key={id} role="listitem" class={id === top ? "nbg-teach-top" : undefined}>
                  <div class="nbg-teach-name" title={name}>
                    {name}
                  </div>
                  <div class="nbg-teach-bar">
                    <span class="nbg-teach-track">
                      <span style={{ width: `${100 * chance}%` }} />
                    </span>
                    {percent(chance)}
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
