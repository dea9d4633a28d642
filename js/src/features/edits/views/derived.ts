// Values that a session makes beside the Plan's: without any edit, the difference, after each edit, and previews.
import { useEffect, useState } from "preact/hooks";
import { differenceKey, stageKey, withoutKey } from "../../../plan/derived_values.ts";
import type { Edit } from "../../../plan/edits.ts";
import type { Session } from "../../../plan/runtime.ts";
import type { Value } from "../../../plan/schema.ts";
import { reportFailure, useViews } from "../../../views/context.ts";
import { isExpected } from "../../../views/measures.ts";

const NOTHING: readonly string[] = [];

/**
 * Who asked a session last, by what it was asked for: the last call counts, and a component that goes may tell so when
 * the next one has asked already.
 */
const askers = new WeakMap<Session, Map<string, symbol>>();

function askersOf(session: Session): Map<string, symbol> {
  const found = askers.get(session) ?? new Map<string, symbol>();
  askers.set(session, found);
  return found;
}

/** Asks a session for values as long as the component is there; the keys that it answers. */
function useAsked(
  what: string,
  about: string,
  ask: (session: Session) => Promise<readonly string[]>,
  end: (session: Session) => Promise<unknown>,
): readonly string[] {
  const views = useViews();
  const session = views.state.session.value;
  const [known, setKnown] = useState({ session, about, keys: NOTHING });
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is asked for is said by `about`
  useEffect(() => {
    if (session === null) return;
    let wanted = true;
    const self = Symbol(about);
    askersOf(session).set(what, self);
    ask(session).then(
      (keys) => {
        if (wanted) setKnown({ session, about, keys });
      },
      (error: unknown) => {
        if (wanted && !isExpected(error)) reportFailure(views, error);
      },
    );
    return () => {
      wanted = false;
      if (askersOf(session).get(what) !== self) return;
      end(session).catch(() => undefined); // it may be closed
    };
  }, [views, session, about]);
  return known.session === session && known.about === about ? known.keys : NOTHING;
}

/** Values by their keys as they are after the last run. */
function useFound(keys: readonly string[]): readonly (Value | undefined)[] {
  const { run, session } = useViews().state;
  return run.value === null ? [] : keys.map((key) => session.value?.value(key));
}

/** A value as it is without any edit, and how much it differs from that: null where nothing is edited. */
export function useWithout(value: Value): { a: Value; difference: Value | null } | null {
  const { key } = value;
  const keys = useAsked(
    "compared",
    key,
    async (session) => {
      await session.compareWith([key]);
      return [withoutKey(key), differenceKey(key)];
    },
    (session) => session.compareWith([]),
  );
  const [a, difference = null] = useFound(keys);
  return a === undefined ? null : { a, difference };
}

/**
 * A value before all of its edits, and after each of them; undefined before it has run so. For one without any nothing
 * is kept.
 */
export function useStages({ key }: Value, edits: number): readonly (Value | undefined)[] {
  const about = edits > 0 ? key : "";
  const keys = useAsked(
    "staged",
    about,
    async (session) => {
      if (about !== "") await session.stagesOf([about]);
      return [about];
    },
    (session) => session.stagesOf([]),
  );
  const count = keys.includes(key) && edits > 0 ? edits + 1 : 0;
  return useFound(Array.from({ length: count }, (_, k) => stageKey(key, k)));
}

/** One channel as each of these edits makes it; empty until they can be drawn. */
export function usePreviews(
  layer: string,
  channel: number,
  image: number,
  edits: readonly Edit[],
): readonly (Value | undefined)[] {
  const keys = useAsked(
    "previewed",
    `${layer} ${channel} ${image}`,
    (session) => session.preview({ layer, channel, image, edits }),
    (session) => session.preview(null),
  );
  return useFound(keys);
}
