// In the bar's right: which source it is, and the button that opens the drawer.
import { useViews } from "../../../views/context.ts";
import { Brackets, Down } from "../../../views/icons.tsx";
import { KindIcon } from "./kind_icon.tsx";
import { titleOf } from "./source_text.ts";

/** What of it the bar says of a source that gives nothing now. */
const QUIET: Readonly<Record<string, string>> = {
  waiting: " · off",
  failed: " · off",
  elsewhere: " · in another page",
};

export function Chosen() {
  const { state } = useViews();
  const { source, drawer, feeder } = state;
  if (feeder.value === null) return null;
  const now = source.value;
  const title = titleOf(now);
  const quiet = now === null ? "" : (QUIET[state.sourceStatus.value.phase] ?? "");
  return (
    <button
      type="button"
      class="nbg-button nbg-chosen-source"
      data-source={now?.kind ?? ""}
      aria-expanded={drawer.value}
      aria-label={`Source: ${title}${quiet}`}
      title={`${title}${quiet}: where the input comes from`}
      onClick={() => {
        drawer.value = !drawer.value;
      }}
    >
      {now === null ? <Brackets /> : <KindIcon kind={now.kind} />}
      <span class="nbg-source-title">
        {title}
        {quiet}
      </span>
      <Down />
    </button>
  );
}
