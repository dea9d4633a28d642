// Values that a session makes beside the Plan's: without any edit, the difference, and previews.
import { useEffect, useState } from "preact/hooks";
import type { Edit } from "../../edits.ts";
import { differenceKey, withoutKey } from "../../gl/derived.ts";
import type { Session } from "../../gl/types.ts";
import type { Value } from "../../plan.ts";
import { reportFailure, useViews, type Views } from "../context.ts";
import { isExpected } from "../measures.ts";

/** What a session answers, as long as it is this session's and this question's. */
function useAsked<T>(
  about: string,
  ask: (session: Session) => Promise<T>,
  end: (session: Session) => void,
): T | null {
  const views = useViews();
  const session = views.state.session.value;
  const [known, setKnown] = useState<{ session: Session; about: string; answer: T } | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is asked for is said by `about`
  useEffect(() => {
    if (session === null) return;
    let wanted = true;
    ask(session).then(
      (answer) => {
        if (wanted) setKnown({ session, about, answer });
      },
      (error: unknown) => report(views, error),
    );
    return () => {
      wanted = false;
      end(session);
    };
  }, [views, session, about]);
  return known !== null && known.session === session && known.about === about ? known.answer : null;
}

const report = (views: Views, error: unknown): void => {
  if (!isExpected(error)) reportFailure(views, error);
};

/** A value as it is without any edit, and how much it differs from that; null until it can be drawn. */
export function useWithout(value: Value): { a: Value; difference: Value } | null {
  return useAsked(
    value.key,
    async (session) => {
      await session.compareWith([value.key]);
      const a = session.value(withoutKey(value.key));
      const difference = session.value(differenceKey(value.key));
      return a && difference ? { a, difference } : null;
    },
    (session) => {
      session.compareWith([]).catch(() => undefined);
    },
  );
}

/** One channel as each of these edits makes it; empty until they can be drawn. */
export function usePreviews(
  layer: string,
  channel: number,
  image: number,
  edits: readonly Edit[],
): readonly Value[] {
  const found = useAsked(
    `${layer} ${channel} ${image}`,
    async (session) => {
      const keys = await session.preview({ layer, channel, image, edits });
      return keys.flatMap((key) => session.value(key) ?? []);
    },
    (session) => {
      session.preview(null).catch(() => undefined);
    },
  );
  return found ?? [];
}
