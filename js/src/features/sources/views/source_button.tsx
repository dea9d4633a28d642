// The source button at the right of the bar: names the source and opens the drawer.
import { useViews } from "../../../views/context.ts";
import { BracketsIcon, DownIcon } from "../../../views/icons.tsx";
import { KindIcon } from "./kind_icon.tsx";
import { sourceTitle } from "./source_text.ts";

/** The suffix of the button's text for a source that provides no input now. */
const INACTIVE_SUFFIXES: Readonly<Record<string, string>> = {
  waiting: " · off",
  failed: " · off",
  elsewhere: " · in another page",
};

export function SourceButton() {
  const { state } = useViews();
  const { source, isDrawerOpen, feeder } = state;
  if (feeder.value === null) return null;
  const now = source.value;
  const title = sourceTitle(now);
  const quiet = now === null ? "" : (INACTIVE_SUFFIXES[state.sourceStatus.value.phase] ?? "");
  return (
    <button
      type="button"
      class="nbg-button nbg-chosen-source"
      data-source={now?.kind ?? ""}
      aria-expanded={isDrawerOpen.value}
      aria-label={`Source: ${title}${quiet}`}
      title={`${title}${quiet}: source of the input`}
      onClick={() => {
        isDrawerOpen.value = !isDrawerOpen.value;
      }}
    >
      {now === null ? <BracketsIcon /> : <KindIcon kind={now.kind} />}
      <span class="nbg-source-title">
        {title}
        {quiet}
      </span>
      <DownIcon />
    </button>
  );
}
