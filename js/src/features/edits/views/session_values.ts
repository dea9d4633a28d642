// Values that a session makes beside the Plan's: without any edit, the difference, after each edit, and previews.
import { useEffect, useState } from "preact/hooks";
import { differenceKey, stageKey, uneditedKey } from "../../../plan/derived_values.ts";
import type { Edit } from "../../../plan/edits.ts";
import type { Session } from "../../../plan/runtime.ts";
import type { Value } from "../../../plan/schema.ts";
import { reportFailure, useViews } from "../../../views/context.ts";
import { isExpectedError } from "../../../views/run_queries.ts";

const NO_KEYS: readonly string[] = [];

/**
 * Who asked a session last, by what it was asked for: the last call counts, and a component that goes may tell so when
 * the next one has asked already.
 */
const lastRequests = new WeakMap<Session, Map<string, symbol>>();

function sessionRequests(session: Session): Map<string, symbol> {
  const found = lastRequests.get(session) ?? new Map<string, symbol>();
  lastRequests.set(session, found);
  return found;
}

/** Asks a session for values as long as the component is there; the keys that it answers. */
function useSessionRequest(
  what: string,
  about: string,
  ask: (session: Session) => Promise<readonly string[]>,
  end: (session: Session) => Promise<unknown>,
): readonly string[] {
  const views = useViews();
  const session = views.state.session.value;
  const [known, setKnown] = useState({ session, about, keys: NO_KEYS });
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is asked for is said by `about`
  useEffect(() => {
    if (session === null) return;
    let wanted = true;
    const self = Symbol(about);
    sessionRequests(session).set(what, self);
    ask(session).then(
      (keys) => {
        if (wanted) setKnown({ session, about, keys });
      },
      (error: unknown) => {
        if (wanted && !isExpectedError(error)) reportFailure(views, error);
      },
    );
    return () => {
      wanted = false;
      if (sessionRequests(session).get(what) !== self) return;
      end(session).catch(() => undefined); // it may be closed
    };
  }, [views, session, about]);
  return known.session === session && known.about === about ? known.keys : NO_KEYS;
}

/** Values by their keys as they are after the last run. */
function useSessionValues(keys: readonly string[]): readonly (Value | undefined)[] {
  const { run, session } = useViews().state;
  return run.value === null ? [] : keys.map((key) => session.value?.value(key));
}

/** A value as it is without any edit, and how much it differs from that: null where nothing is edited. */
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
 * A value before all of its edits, and after each of them; undefined before it has run so. For one without any nothing
 * is kept.
 */
export function useEditStages({ key }: Value, edits: number): readonly (Value | undefined)[] {
  const about = edits > 0 ? key : "";
  const keys = useSessionRequest(
    "staged",
    about,
    async (session) => {
      if (about !== "") await session.keepStages([about]);
      return [about];
    },
    (session) => session.keepStages([]),
  );
  const count = keys.includes(key) && edits > 0 ? edits + 1 : 0;
  return useSessionValues(Array.from({ length: count }, (_, k) => stageKey(key, k)));
}

/** One channel as each of these edits makes it; empty until they can be drawn. */
export function usePreviews(
  layer: string,
  channel: number,
  image: number,
  edits: readonly Edit[],
): readonly (Value | undefined)[] {
  const keys = useSessionRequest(
    "previewed",
    `${layer} ${channel} ${image}`,
    (session) => session.previewEdits({ layer, channel, image, edits }),
    (session) => session.previewEdits(null),
  );
  return useSessionValues(keys);
}
