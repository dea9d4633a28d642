// The keys, for whoever asks: `?`, or the button in the status line.

import { useViews } from "./context.ts";
import { KeyList } from "./help/keys.tsx";

export function Keys() {
  const { help } = useViews();
  return help.value ? <KeyList /> : null;
}

export function KeysButton() {
  const { help } = useViews();
  return (
    <button
      type="button"
      class="nbg-second nbg-underlined"
      aria-expanded={help.value}
      onClick={() => {
        help.value = !help.value;
      }}
    >
      Keys
    </button>
  );
}
