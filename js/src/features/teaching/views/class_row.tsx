// A class of the lesson: its name, the button that collects examples while held, and thumbnails.
import { effect, untracked } from "@preact/signals";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { formatPercent } from "../../../number_format.ts";
import { useViews } from "../../../views/context.ts";
import { CloseIcon } from "../../../views/icons.tsx";
import type { LessonStore } from "../lesson_store.ts";
import { type LessonClass, MAX_NAME_LENGTH, type TeachingRecord } from "../records.ts";
import { ExampleThumbs } from "./example_thumbs.tsx";
import { examplesText } from "./teaching_text.ts";

/** Minimum interval between examples while the button is held. */
const COLLECT_INTERVAL_MS = 100;

export function ClassRow(props: {
  store: LessonStore;
  lessonClass: LessonClass;
  record: TeachingRecord;
  /** The names of all classes. */
  classNames: readonly string[];
  /** The head's current probability of this class; null if there is no head. */
  probability: number | null;
  isTopClass: boolean;
}) {
  const { store, lessonClass, record, classNames, probability, isTopClass } = props;
  const files = useRef<HTMLInputElement>(null);
  const { examples } = store.lesson.value;
  const { id, name: className } = lessonClass;
  const own = useMemo(() => examples.filter(({ classId }) => classId === id), [examples, id]);
  // Memoised: unchanged while new inputs arrive.
  const thumbs = useMemo(
    () => <ExampleThumbs {...{ store, record, examples: own, className }} />,
    [store, record, own, className],
  );
  return (
    <section
      class={isTopClass ? "nbg-taught nbg-taught-wins" : "nbg-taught"}
      aria-label={`Class ${className}`}
      data-class={className}
    >
      <div class="nbg-taught-head">
        <NameField {...{ store, lessonClass, classNames }} />
        <span class="nbg-second" data-count={own.length}>
          {examplesText(own.length)}
        </span>
        {probability !== null && (
          <span class="nbg-taught-chance" data-probability={probability}>
            {isTopClass && <strong>now </strong>}
            {formatPercent(probability)}
          </span>
        )}
        <button
          type="button"
          class="nbg-button nbg-square"
          aria-label={`Remove class ${className}`}
          title="Remove this class with its examples"
          onClick={() => store.removeClass(lessonClass.id)}
        >
          <CloseIcon />
        </button>
      </div>
      <div class="nbg-taught-tools">
        <CollectButton store={store} lessonClass={lessonClass} />
        <button type="button" class="nbg-button" onClick={() => files.current?.click()}>
          Add pictures…
        </button>
        <input
          ref={files}
          type="file"
          accept="image/*"
          multiple
          hidden
          aria-label={`Pictures for ${className}`}
          onChange={(event) => {
            const chosen = [...(event.currentTarget.files ?? [])];
            event.currentTarget.value = "";
            void store.addPictures(lessonClass.id, chosen).then(() => store.trainHead());
          }}
        />
      </div>
      {thumbs}
    </section>
  );
}

function NameField(props: {
  store: LessonStore;
  lessonClass: LessonClass;
  classNames: readonly string[];
}) {
  const { store, lessonClass, classNames } = props;
  const [draft, setDraft] = useState<string | null>(null);
  const id = useId();
  const text = draft?.trim() ?? lessonClass.name;
  const taken = text !== lessonClass.name && classNames.includes(text);
  const wrong = text === "" ? "Enter a name." : taken ? "Another class has this name." : "";
  const take = (): void => {
    if (draft !== null && wrong === "" && text !== lessonClass.name)
      store.renameClass(lessonClass.id, text);
    setDraft(null);
  };
  return (
    <span class="nbg-taught-name">
      <input
        type="text"
        value={draft ?? lessonClass.name}
        maxLength={MAX_NAME_LENGTH}
        // As wide as its bold text.
        size={Math.ceil(1.1 * text.length) + 1}
        aria-label={`Name of the class ${lessonClass.name}`}
        aria-invalid={wrong !== ""}
        aria-describedby={wrong === "" ? undefined : id}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onBlur={take}
        onKeyDown={(event) => {
          event.stopPropagation(); // typed letters must not trigger key bindings
          if (event.key === "Enter") take();
          if (event.key === "Escape") setDraft(null);
        }}
      />
      {wrong !== "" && (
        <span id={id} class="nbg-bad">
          {wrong}
        </span>
      )}
    </span>
  );
}

const HOLD_KEYS: readonly string[] = [" ", "Enter"];

function CollectButton({ store, lessonClass }: { store: LessonStore; lessonClass: LessonClass }) {
  const { state } = useViews();
  const [held, setHeld] = useState(false);
  useEffect(() => {
    if (!held) return;
    let first = true;
    let last = Number.NEGATIVE_INFINITY;
    let taking: Promise<void> | undefined;
    const take = async (): Promise<void> => {
      const now = performance.now();
      const asked = store.collectExample(lessonClass.id, first);
      first = false;
      if (await asked) last = now;
      taking = undefined;
    };
    const stop = effect(() => {
      state.run.value;
      untracked(() => {
        if (taking === undefined && performance.now() - last >= COLLECT_INTERVAL_MS)
          taking = take();
      });
    });
    return () => {
      stop();
      void (taking ?? Promise.resolve()).then(() => store.trainHead());
    };
  }, [held, store, lessonClass.id, state]);
  const end = (): void => setHeld(false);
  return (
    <button
      type="button"
      class={held ? "nbg-button nbg-collect nbg-collecting" : "nbg-button nbg-collect"}
      aria-pressed={held}
      title="Each new input picture becomes an example, at most 10 per second"
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        setHeld(true);
      }}
      onPointerUp={end}
      onPointerCancel={end}
      onLostPointerCapture={end}
      onContextMenu={(event) => event.preventDefault()} // from a long touch
      onKeyDown={(event) => {
        if (!HOLD_KEYS.includes(event.key) || event.ctrlKey || event.metaKey || event.altKey)
          return;
        event.preventDefault();
        event.stopPropagation();
        if (!event.repeat) setHeld(true);
      }}
      onKeyUp={(event) => {
        if (HOLD_KEYS.includes(event.key)) end();
      }}
      onBlur={end}
    >
      {held ? `Collecting ${lessonClass.name}…` : `Hold to collect ${lessonClass.name}`}
    </button>
  );
}
