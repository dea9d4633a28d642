// Values that a session keeps in addition to the Plan's: unedited values, differences, edit stages, and previews.
import { useEffect, useState } from "preact/hooks";
import { differenceKey, intermediateKey, uneditedKey } from "../../../plan/derived_values.ts";
import type { Edit } from "../../../plan/edits.ts";
import type { Session } from "../../../plan/runtime.ts";
import type { Value } from "../../../plan/schema.ts";
import { reportFailure, useViews } from "../../../views/context.ts";
import { isExpectedError } from "../../../views/run_queries.ts";

const NO_KEYS: readonly string[] = [];

/**
 * The last requester of each kind of value for each session. The last request wins, so a component that unmounts after
 * the next one has made its request must not cancel that request.
 */
const lastRequesters = new WeakMap<Session, Map<string, symbol>>();

function requestersByKind(session: Session): Map<string, symbol> {
  const found = lastRequesters.get(session) ?? new Map<string, symbol>();
  lastRequesters.set(session, found);
  return found;
}

/** Request values from a session while the component is mounted. Returns the keys of the values. */
function useSessionRequest(
  requestKind: string,
  requestKey: string,
  requestKeys: (session: Session) => Promise<readonly string[]>,
  cancelRequest: (session: Session) => Promise<unknown>,
): readonly string[] {
  const views = useViews();
  const session = views.state.session.value;
  const [known, setKnown] = useState({ session, requestKey, keys: NO_KEYS });
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is asked for is said by `requestKey`
  useEffect(() => {
    if (session === null) return;
    let wanted = true;
    const self = Symbol(requestKey);
    requestersByKind(session).set(requestKind, self);
    requestKeys(session).then(
      (keys) => {
        if (wanted) setKnown({ session, requestKey, keys });
      },
      (error: unknown) => {
        if (wanted && !isExpectedError(error)) reportFailure(views, error);
      },
    );
    return () => {
      wanted = false;
      if (requestersByKind(session).get(requestKind) !== self) return;
      cancelRequest(session).catch(() => undefined); // the session may be closed
    };
  }, [views, session, requestKey]);
  return known.session === session && known.requestKey === requestKey ? known.keys : NO_KEYS;
}

/** The values with these keys after the last run. */
function useSessionValues(keys: readonly string[]): readonly (Value | undefined)[] {
  const { run, session } = useViews().state;
  return run.value === null ? [] : keys.map((key) => session.value?.value(key));
}

/** A value without any edits, and the difference of the edited value from it; null if nothing is edited. */
export function useUneditedValue(value: Value): { a: Value; difference: Value | null } | null {
  const { key } = value;
  const keys = useSessionRequest(
    "compared",
    key,
    async (session) => {
      await session.keepUnedited([key]);
      return [uneditedKey(key), differenceKey(key)];
    },
    (session) => session.keepUnedited([]),
  );
  const [a, difference = null] = useSessionValues(keys);
  return a === undefined ? null : { a, difference };
}

/**
 * A value before its edits and after each of them; undefined until the first run with them. Without edits, no stages
 * are kept.
 */
export function useEditStages({ key }: Value, editCount: number): readonly (Value | undefined)[] {
  const about = editCount > 0 ? key : "";
  const keys = useSessionRequest(
    "staged",
    about,
    async (session) => {
      if (about !== "") await session.keepIntermediates([about]);
      return [about];
    },
    (session) => session.keepIntermediates([]),
  );
  const count = keys.includes(key) && editCount > 0 ? editCount + 1 : 0;
  return useSessionValues(Array.from({ length: count }, (_, k) => intermediateKey(key, k)));
}

/** A preview of one channel for each edit; empty until it can be drawn. */
export function usePreviews(
  layer: string,
  channel: number,
  exampleIndex: number,
  edits: readonly Edit[],
): readonly (Value | undefined)[] {
  const keys = useSessionRequest(
    "previewed",
    `${layer} ${channel} ${exampleIndex}`,
    (session) => session.previewEdits({ layer, channel, image: exampleIndex, edits }),
    (session) => session.previewEdits(null),
  );
  return useSessionValues(keys);
}
